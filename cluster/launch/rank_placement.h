// Which rank runs where: from a cluster file, or from the options of `troupe serve` alone. Pure; any thread.
#pragma once
#include "cluster/launch/cluster_file.h"
#include "cluster/cluster_plan.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace troupe::cluster::launch {

/// "0-3,6".
std::string cores_text(std::span<const std::uint16_t> cores);
/// `count` shares of neighbours, whose sizes differ by one at most. Fewer cores than shares: they are used several times, in turn.
std::vector<std::vector<std::uint16_t>> deal_cores(std::span<const std::uint16_t> cores, std::size_t count);

/// `troupe serve`: all ranks on this host, on a share of `cores` each.
ClusterPlan plan_of_options(const Options& options, std::span<const std::uint16_t> cores);

struct PlacedRanks {
  ClusterPlan plan;
  std::vector<const ClusterNode*> nodes;  // of the file, by rank; null: no node has it, which is a fault
};
/// `troupe launch`: what the nodes of the file say; `options` are the file's, with what the command line says instead. What does not fit
/// together is added to `faults`, and then the plan is not to be used.
PlacedRanks place_ranks(const ClusterFile& file, const Options& options, std::span<const std::uint16_t> cores, Faults& faults);

}  // namespace troupe::cluster::launch
