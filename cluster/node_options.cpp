#include "cluster/node_options.h"

#include "cluster/config_answer.h"

#include "kernels/backend.h"
#include "messages/error_reasons.h"

#include <algorithm>

namespace troupe::cluster {

gateway::GatewayOptions gateway_options(const Options& options) {
  gateway::GatewayOptions out;
  out.hosts = options.hosts;
  out.port = static_cast<std::uint16_t>(options.port);
  out.allowed_origins = options.allowed_origins;
  out.allowed_hosts = options.allowed_hosts;
  out.metrics_open = options.metrics_open;
  out.config_json = config_answer(options);
  out.access_log = options.access_log;
  out.limits.connections = options.max_connections;
  out.limits.choices = static_cast<std::uint32_t>(options.max_choices);
  out.limits.connections_per_ip = options.max_connections_per_address;
  out.limits.body = out.limits.ws_message = options.max_body;
  out.limits.held = std::max(out.limits.held, 8 * static_cast<std::size_t>(options.max_body));  // a few of the largest always fit
  out.limits.head = options.max_head;
  out.limits.json_depth = options.max_json_depth;
  out.limits.out_high = options.max_output;
  out.limits.out_low = options.max_output / 4;
  out.limits.head_ms = static_cast<unsigned>(options.head_timeout_ms);
  out.limits.body_ms = static_cast<unsigned>(options.body_timeout_ms);
  out.limits.idle_ms = static_cast<unsigned>(options.idle_timeout_ms);
  out.limits.stall_ms = static_cast<unsigned>(options.slow_reader_ms);
  out.limits.stuck_ms = static_cast<unsigned>(options.watchdog_ms / 2);
  out.limits.response_bytes = options.store_memory / 2;
  out.limits.response_ttl_ms = options.store_ttl_seconds * 1000;
  out.durable_responses = options.disk_cache > 0 && !cache_folder(options, process_environment).empty();
  // The scheduler's queue is the bound that the user sets; the gateway's own lies above it.
  out.limits.requests = std::max<std::size_t>(out.limits.requests, options.max_queue + options.max_sequences + 1);
  return out;
}

schedule::SchedulerOptions scheduler_options(const Options& options) {
  schedule::SchedulerOptions out;
  out.policy = options.policy;
  out.max_sequences = static_cast<std::uint32_t>(options.max_sequences);
  out.token_budget = static_cast<std::uint32_t>(options.token_budget);
  out.stall_budget_ms = static_cast<std::uint32_t>(options.stall_budget_ms);
  out.max_queued_requests = static_cast<std::uint32_t>(options.max_queue);
  out.overlap = options.overlap;
  return out;
}

std::filesystem::path cache_folder(const Options& options, const Environment& environment) {
  if (options.cache_dir.empty() || options.cache_dir == "none") return {};
  if (options.cache_dir != "auto") return options.cache_dir;
  // The XDG Base Directory Specification: a path that is not absolute does not count.
  const char *xdg = environment("XDG_CACHE_HOME"), *home = environment("HOME");
  if (xdg != nullptr && xdg[0] == '/') return std::filesystem::path(xdg) / "troupe";
  if (home != nullptr && home[0] == '/') return std::filesystem::path(home) / ".cache" / "troupe";
  return {};
}

exec::ShardSpec shard_spec(const Options& options) {
  exec::ShardSpec out;
  out.model_path = options.model;
  out.weights = options.weights;
  out.activations = options.activations;
  out.kv_format = options.kv_format;
  out.device_bytes = options.kv_memory;
  out.host_bytes = options.host_cache;
  out.disk_bytes = options.disk_cache;
  out.threads = options.threads;
  out.pin = !options.no_pin;
  out.isa = options.isa;
  out.cache_folder = cache_folder(options, process_environment).string();
  out.trace_file = options.step_trace;
  return out;
}

Status check_isa(const std::string& isa) {
  const auto levels = kernels::cpu_isa_levels();
  if (isa.empty() || std::find(levels.begin(), levels.end(), isa) != levels.end()) return ok_status();
  std::string known;
  for (const std::string& level : levels) known += (known.empty() ? "" : ", ") + level;
  return make_error(ErrorClass::kInvalidRequest, ErrorReason::kBadConfig, "--isa: this machine has no " + isa + "; it has " + known, "isa");
}

}  // namespace troupe::cluster
