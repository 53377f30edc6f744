// ShardEngine: everything of one rank below its actor: model file, backend, weights, executor. The Shard actor drives it; all calls come
// from the shard's compute thread. Tests of actors give a fake.
#pragma once
#include "messages/error.h"
#include "messages/ids.h"
#include "runtime/base/shard_place.h"
#include "runtime/collective/transport.h"
#include "runtime/exec/executor.h"
#include "runtime/exec/group_speed.h"
#include "runtime/exec/rank_stores.h"
#include "runtime/plan/forward_plan.h"
#include "runtime/weights/content_hash.h"

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace troupe::exec {

/// Plain form of LoadShard, as far as one rank needs it.
struct ShardSpec {
  base::ShardPlace place;
  collective::TransportSpec transport;  // used with more than one rank
  std::string model_path;
  std::string weights = "file";      // file (as they are) | int8-channel
  std::string activations = "int8";  // int8 (group 32) | int8-token | bf16 | fp32
  std::string kv_format = "int8";    // int8 | fp16 | fp32
  // Of the replica, over all its ranks, so that each has as many blocks:
  std::uint64_t device_bytes = 0;  // of KV; 0 = default: min(25 % of RAM, 16 full contexts)
  std::uint64_t host_bytes = 0;    // of the host's cache tier; 0 = none
  std::uint64_t disk_bytes = 0;    // of the disk's, in cache_folder; 0 = none
  std::size_t threads = 0;         // 0 = cores of the process
  bool pin = true;
  unsigned spin_us = 150;
  std::string isa;  // "" = best
  /// Where packed weights, content hashes and K/V blocks are kept from start to start; empty: nowhere.
  std::string cache_folder;
  /// Packed weights are written while the model serves. False (measurements): load() waits for that.
  bool cache_in_background = true;
  /// What the caller knows of the model file, so that it is not read again for its hash; a file of other content is refused.
  std::optional<weights::KnownContent> known_content;
  /// Steps are traced to "<trace_file>.rank<r>.json" (step_trace.h); empty: not at all.
  std::string trace_file;
};

struct ShardFacts {
  Hash128 numerics;  // with more than one rank: not yet final, since the codec is not known
  Hash128 content;
  std::uint32_t device_blocks = 0;
  std::uint32_t host_blocks = 0, disk_blocks = 0;  // 0 = no such tier
  std::uint64_t block_bytes = 0;                   // of a block on this rank, all layers
  std::uint32_t context_tokens = 0;
  std::uint64_t kv_bytes = 0, weight_bytes = 0;
  bool weights_cached = false;  // all were found packed
  std::string description;      // one line for the log and the start-up line
  std::string codec;            // of a group that has met: the one in force
};

/// Plain form of EnterEpoch, as far as one rank needs it.
struct EpochEntry {
  GroupEpoch epoch;
  std::string token;                   // these three only with more than one rank
  std::vector<std::string> addresses;  // data_address() of each rank, by rank
  std::string codec;                   // row of the codec table; "auto": the ranks measure, and rank 0 decides
};

struct EpochFacts {
  std::string codec;  // in force from now on, for the life of the replica
  Hash128 numerics;   // with that codec
  GroupSpeed speed;
};

class ShardEngine {
 public:
  virtual ~ShardEngine() = default;
  /// Loads and packs the weights, makes the KV pool. Once.
  virtual Result<ShardFacts> load(const ShardSpec& spec, const std::function<void(std::size_t done, std::size_t total)>& progress) = 0;
  /// With more than one rank: meets the others, and fails when `abort` is set meanwhile. Then stores() are open.
  virtual Result<EpochFacts> enter_epoch(const EpochEntry& entry, const std::atomic<bool>& abort) = 0;
  /// The transport goes; weights and stores stay.
  virtual void leave_epoch() {}
  /// Where the others find this rank in the coming epoch; after load() and after each leave_epoch(). Empty with one rank.
  virtual std::string data_address() { return {}; }
  /// Throws StepAborted when `abort` was seen, PlanGap, or whatever a fault threw.
  virtual plan::ForwardResult run(const plan::ForwardPlan& plan, const std::atomic<bool>& abort) = 0;
  /// Between two calls, for as long as it says false: advances what other ranks wait for (Collective::settle).
  virtual bool settle() noexcept { return true; }
  /// Tiers below the device, from the first epoch to the end of the engine; null: none. Their calls come from any thread.
  virtual RankStores* stores() { return nullptr; }
};

/// Puts a backend in front of the engine's own (one that times calls, say). Its results must be those of the inner one.
using BackendWrap = std::function<std::unique_ptr<kernels::Backend>(std::unique_ptr<kernels::Backend> inner)>;
/// What tests break on purpose.
struct Faults {
  FaultHook step;  // may be empty
  SlowTier slow;
};
std::unique_ptr<ShardEngine> make_shard_engine(Faults faults = {}, BackendWrap wrap = {});

/// Of `--fault` (tests): "throw:N" throws at every N-th step, "stall:N" stalls at every N-th step until the abort flag is set, "hang:N"
/// stalls once at step N and ignores the flag; steps are counted over the life of the shard. "slow-disk:N" and "slow-host:N" read K/V
/// blocks from there at N MB/s. Empty spec: nothing.
Result<Faults> parse_fault(const std::string& spec);

}  // namespace troupe::exec
