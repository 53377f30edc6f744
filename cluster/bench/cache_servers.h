// CacheServers: servers for the suite cache, one behind the other or two at a time: in this process, with cache tiers of chosen sizes in a
// folder of their own that one start leaves for the next; or the one at --url. Owned by the suite, main thread.
// Invariant: the folder is gone when this is gone.
#pragma once
#include "cluster/bench/bench_options.h"
#include "cluster/bench/http_scenarios.h"
#include "cluster/embedded_node.h"

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace troupe::cluster::bench {

struct TierBytes {
  std::uint64_t device = 0;  // 0: as the server chooses
  std::uint64_t host = 0, disk = 0;
  std::uint64_t slow_disk_mb_s = 0;  // what the disk is read at, at most; 0: as fast as it is
};

/// A server that is ready, and its client; stopped when it goes.
struct CacheServer {
  std::unique_ptr<EmbeddedNode> node;  // null: it is elsewhere
  HttpScenarios http;
  /// Returns when every published block is in the tier below too, or goes no further; false: not within half a minute.
  bool wait_until_written(const std::atomic<bool>& stop) const;
};

class CacheServers {
 public:
  CacheServers(const BenchOptions& options, const std::atomic<bool>& stop);
  ~CacheServers();
  bool foreign() const { return !options_.options.url.empty(); }
  /// Makes the folder, beside the packed weights, which are used from there. Errors: no folder, or it cannot be written.
  Status prepare();
  /// What lies on the disk is what servers with a disk tier have left. `same_prompts`: its client makes
  /// those of the last one, else such as nobody has made. Errors: as a start's, or a first request's.
  Result<std::unique_ptr<CacheServer>> start(const TierBytes& tiers, bool same_prompts = false);
  /// While no server runs: the system keeps the blocks on disk no longer in its memory, as after a restart of the machine. Best effort.
  void leave_to_the_disk() const;

 private:
  const BenchOptions& options_;
  const std::atomic<bool>& stop_;
  std::filesystem::path folder_;
  std::uint64_t seed_ = 0;  // of the last client's prompts, beside the options'
};

}  // namespace troupe::cluster::bench
