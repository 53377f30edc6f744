// What a cluster file, or the options of several ranks, would do on this host, checked before anything is started: model, memory, ports,
// networks, certificates. Main thread; reads files and looks at the machine through HostView.
#pragma once
#include "cluster/cluster_plan.h"
#include "cluster/launch/cluster_file.h"
#include "cluster/launch/host_view.h"
#include "cluster/model_facts.h"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::cluster::launch {

/// Of one rank, about.
struct RankNeeds {
  std::size_t first_layer = 0, layers = 0;
  std::uint64_t weight_bytes = 0, kv_bytes = 0;
};

struct CheckedCluster {
  ClusterPlan plan;
  std::vector<RankNeeds> needs;    // by rank; empty where the model has a fault
  std::vector<std::string> notes;  // what is allowed, but not wise
  Faults faults;
};

/// `options`: those of the file, with what the command line and the environment say instead.
CheckedCluster check_cluster(const ClusterFile& file, const Options& options, const HostView& host);
/// `troupe serve` with several ranks: its plan, on this host alone.
CheckedCluster check_options(const Options& options, const HostView& host);

/// An Error, about an option, where the model cannot be divided so, or no block fits.
Result<std::vector<RankNeeds>> rank_needs(const ModelFacts& facts, const Options& options, std::uint64_t memory_bytes);

/// A table of what would run where.
std::string cluster_summary(const CheckedCluster& checked, const Options& options);

}  // namespace troupe::cluster::launch
