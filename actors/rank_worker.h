// RankWorker: what the Shard actor and its compute thread share: the engine, the abort flag, a count of finished jobs.
// The engine is touched by compute jobs only; its stores, the flag and the counters by both. Jobs hold the worker, never the actor: it may
// die before them.
#pragma once
#include "runtime/exec/shard_engine.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

namespace troupe::actors {

struct RankWorker {
  std::unique_ptr<exec::ShardEngine> engine;       // compute thread only, as is the next
  bool settling = false;                           // a job that lets the engine settle waits behind the others
  std::atomic<exec::RankStores*> stores{nullptr};  // the engine's; set before ShardReady is sent, void once the actor has ended
  std::atomic<bool> abort{false};                  // set: the running step ends, later plans of the epoch are skipped
  std::atomic<std::uint64_t> posted{0};
  std::atomic<std::uint64_t> progress{0};  // finished jobs, and signs of life within a long one
  std::atomic<std::uint64_t> finished{0};

  bool busy() const { return finished.load() != posted.load(); }
};

}  // namespace troupe::actors
