// `troupe serve`: a node and what the user sees of it. Main thread.
#pragma once
#include "cluster/cluster_plan.h"
#include "cluster/options.h"

namespace troupe::cluster {

/// Exit code: 0 after a drain, 1 for anything the user has to change, else that of the fault.
/// With several ranks they run in processes of their own, on this host.
int run_serve(const Options& options);
/// The same with the processes of a plan that was checked.
int serve_cluster(const Options& options, const ClusterPlan& plan);

}  // namespace troupe::cluster
