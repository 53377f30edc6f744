// Options -> the small structs that each part takes. Pure; any thread.
#pragma once
#include "cluster/option_sources.h"
#include "cluster/options.h"
#include "gateway/gateway.h"
#include "messages/error.h"
#include "runtime/exec/shard_engine.h"
#include "runtime/schedule/scheduler.h"

#include <filesystem>
#include <string>
#include <vector>

namespace troupe::cluster {

gateway::GatewayOptions gateway_options(const Options& options);
schedule::SchedulerOptions scheduler_options(const Options& options);
/// Of --cache-dir; "auto" is below $XDG_CACHE_HOME or ~/.cache, and none where neither is known.
std::filesystem::path cache_folder(const Options& options, const Environment& environment);
/// Of any rank; its place, its transport and what differs from rank to rank is the cluster plan's. Memory is that of all ranks together.
exec::ShardSpec shard_spec(const Options& options);
/// An Error names the levels that this machine has.
Status check_isa(const std::string& isa);

}  // namespace troupe::cluster
