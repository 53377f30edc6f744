// The suite `cache`: what it saves to find K and V of a prefix on the device, the host or the disk, in scenarios of load; and what it
// costs where nothing is shared.
//   turn       second turn of a chat whose first lies nowhere, on the device, the host, the disk (after a restart), or on a disk so slow
//              that computing is cheaper. Rounds, one of each; medians
//   shared, multiturn   as in http_scenarios.h, with the tiers that the options say
//   mcts       a tree search (tree_search.h)
//   trace      requests of a trace (block_trace.h)
//   none       prompts that share nothing, on a server with tiers and one without, in turns
// Main thread. Fills Report::cache; after a fault or an interrupt with what was measured until then.
#pragma once
#include "cluster/bench/cache_servers.h"
#include "cluster/bench/report.h"
#include "cluster/bench/turns.h"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::cluster::bench {

class CacheSuite {
 public:
  /// `position_bytes`: K and V of a token; `context`: tokens. Both 0 with --url.
  CacheSuite(const BenchOptions& options, double position_bytes, std::uint32_t context, ProgressBar& bar, const std::atomic<bool>& stop,
             Report& report);
  Status measure();

 private:
  using Calls = std::map<std::string_view, std::vector<CallResult>>;  // by where the first turn lay
  Status check_sizes() const;
  Status start_loaded();
  Status turn();
  Status turn_elsewhere(Calls& calls);
  Status turn_here(Calls& calls);
  Status turn_round(std::unique_ptr<CacheServer>& server, const TierBytes& tiers, Calls& calls);
  void report_turns(const Calls& calls);
  Status load(const std::string& scenario);
  struct PairedRuns {
    std::vector<HttpFigure> plain, tiered;
    std::vector<double> ratios;  // of throughput, with tiers over without
  };
  Status none();
  Status pair_up(const TierBytes& plain, const TierBytes& tiered, bool tiers_first, PairedRuns& runs);
  TierBytes tiers_of_options() const;
  std::uint64_t bytes_of(double tokens) const;
  void wait(const CacheServer& server);
  void show(double done, const std::string& what) { bar_.show(done, "cache: " + what); }

  const BenchOptions& options_;
  double position_bytes_;
  std::uint32_t context_;
  ProgressBar& bar_;
  const std::atomic<bool>& stop_;
  Report& report_;
  CacheServers servers_;
  std::unique_ptr<CacheServer> loaded_;  // of all scenarios but turn and none
};

}  // namespace troupe::cluster::bench
