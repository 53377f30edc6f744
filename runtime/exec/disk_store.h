// DiskStore: blocks in one file of the cache folder, "<hash of the domain>.blocks", which a restart finds again. Places are written over
// where they lie, so the file never grows beyond its bound and needs no cleaning; see disk_layout.h for what is in it.
// A put clears the old record, writes the bytes, then the new record, then syncs all of its blocks at once: whatever dies in between, a
// record either fits its bytes or is a miss. Bytes are checked against their record at every read. Stamps of last use are written with
// the records, and those of reads by tidy(): after a kill blocks that were only read since then look older than they are, nothing else.
// A full disk, or one with less to spare than asked for, stops puts until there is room; said once. A damaged head empties the file.
// One process uses the file, by a lock that ends with it; with another one in it the store does not open. Files of other models stay within
// their own bound, those used last, from the first put on; those in use stay. A file system on which nothing can be written is only read.
// Thread: one at a time; calls block on the disk. Invariant: `records_` are those of the file, or empty.
#pragma once
#include "runtime/base/cache_folder.h"
#include "runtime/exec/disk_layout.h"
#include "runtime/exec/tier_store.h"
#include "runtime/exec/use_clock.h"

#include <sys/uio.h>

#include <array>
#include <memory>
#include <vector>

namespace troupe::exec {

class DiskStore final : public TierStore {
 public:
  static Result<std::unique_ptr<TierStore>> open(const StoreSpec& spec);
  /// In StoreSpec::folder.
  static std::string file_name(const StoreSpec& spec);
  ~DiskStore() override;

  bool survives_restart() const override { return true; }
  Status put(std::span<BlockWrite> writes) override;
  Status get(std::span<BlockRead> reads) override;
  void drop(std::span<const StoredBlock> blocks) override;
  bool tidy() override;
  std::vector<StoredBlock> inventory() const override;

 private:
  static constexpr std::size_t kRun = 64;  // blocks of one system call; two vectors each, and Linux takes 1024

  explicit DiskStore(const StoreSpec& spec);
  Status open_file();
  Status take_file(base::Descriptor file, bool writable);
  Status start_empty(const char* why);
  void read_records();

  /// Once, and not when it opens: files of this replica's other ranks, which open theirs at about that time, would be taken for leftovers.
  void make_room();
  bool write_run(std::span<BlockWrite> run);
  bool check(BlockRead& read);
  bool write_records(BlockId first, std::size_t count);
  void forget(BlockId first, std::size_t count);
  bool holds(BlockId block, const BlockKey& key) const { return block < blocks_ && key && records_[block].key == key; }
  std::uint64_t free_bytes() const;
  Status not_written(std::span<BlockWrite> writes, const std::string& why);
  Status damaged(BlockId block, const char* what);
  Error failed(const char* what) const;  // with errno

  const base::CacheFolder folder_;
  const std::string name_;
  const std::uint64_t spare_bytes_, others_bytes_;
  const DiskLayout layout_;
  base::Descriptor file_;
  bool writable_ = false, made_room_ = false;
  bool refusing_ = false, told_damage_ = false;  // what has been logged
  UseClock clock_;
  std::vector<DiskRecord> records_;
  std::vector<bool> stale_chunks_;                      // whose stamps in the file are old
  std::array<std::byte, DiskLayout::kPage> padding_{};  // zeros behind a block
  std::vector<iovec> vectors_;
};

}  // namespace troupe::exec
