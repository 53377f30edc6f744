// TierStore: the bytes of one tier's K/V blocks beside a rank. It has places 0 ... blocks - 1 of one size. Which block lies in which place,
// what is locked and what goes when room is needed is decided by the tier's index, in its actor, so that all ranks agree; the store keeps
// bytes, and with them the key of what it was given. Every access names both: a place that holds another key is a miss, so a mistaken
// or late index can never be served wrong bytes. Places may be written over without a drop.
// Owner: the rank. Thread: each implementation says. No call throws for what comes from outside: disks, files, ids.
#pragma once
#include "messages/error.h"
#include "messages/ids.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace troupe::exec {

struct BlockWrite {
  BlockId block = 0;
  BlockKey key;                     // not null
  const std::byte* from = nullptr;  // block_bytes
  bool done = false;                // set by put()
};
struct BlockRead {
  BlockId block = 0;
  BlockKey key;
  std::byte* to = nullptr;  // block_bytes; anything may be in them unless done
  bool done = false;        // set by get()
};
struct StoredBlock {
  BlockId block = 0;
  BlockKey key;
  std::uint32_t age_s = 0;  // since its last put or get
  friend bool operator==(const StoredBlock&, const StoredBlock&) = default;
};

struct StoreSpec {
  std::size_t block_bytes = 0;                           // of a block on this rank, all layers
  std::uint32_t blocks = 0;                              // bound: never more, and no memory or disk beyond what they need
  Hash128 domain;                                        // from store_domain(); what was kept for another one is a miss
  std::filesystem::path folder;                          // of stores that survive a restart; made if it is not there
  std::uint64_t spare_bytes = std::uint64_t{1} << 30;    // left on the disk for others
  std::uint64_t others_bytes = std::uint64_t{16} << 30;  // of other domains in the folder, not in use, that stay
};

class TierStore {
 public:
  virtual ~TierStore() = default;
  std::uint32_t blocks() const { return blocks_; }
  std::size_t block_bytes() const { return block_bytes_; }
  virtual bool survives_restart() const = 0;

  /// Keeps the blocks; where the store survives a restart, those that are done also survive a power cut. Neighbouring places in a row are
  /// one large write. The error is that of the first block that failed; what lay in its place is gone, too. Blocks without a key, or
  /// with a place that the store lacks, are not done.
  virtual Status put(std::span<BlockWrite> writes) = 0;
  /// Blocks that are not there are not done, which is no error; damaged ones and a failing disk are. Neighbours in a row are one large
  /// read.
  virtual Status get(std::span<BlockRead> reads) = 0;
  /// Forgets blocks, where they still lie in their places. They may be found again after a crash, which harms nobody.
  virtual void drop(std::span<const StoredBlock> blocks) = 0;
  /// What can wait until nobody does, a few milliseconds of it: called when idle. True: there is more.
  virtual bool tidy() { return false; }
  /// All blocks, least recently used first. After a crash one key may lie in two places; the bytes are the same.
  virtual std::vector<StoredBlock> inventory() const = 0;

 protected:
  explicit TierStore(const StoreSpec& spec) : block_bytes_(spec.block_bytes), blocks_(spec.blocks) {}
  const std::size_t block_bytes_;
  const std::uint32_t blocks_;
};

/// What must be equal for a kept block to serve: everything that its bytes depend on but for the key.
struct StoreOwner {
  Hash128 content;        // of the model
  Hash128 numerics;       // arithmetic and K/V format
  std::string kv_layout;  // KvCache::block_layout()
  std::uint32_t rank = 0, ranks = 1;
};
Hash128 store_domain(const StoreOwner& owner);

/// Checks what no store can be made of; the error names the field.
Status check_store(const StoreSpec& spec);

}  // namespace troupe::exec
