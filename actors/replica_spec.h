// What a replica is made of, as data: given once to the Company by the composition root.
#pragma once
#include "messages/ids.h"
#include "runtime/base/metrics.h"
#include "runtime/exec/shard_engine.h"
#include "runtime/schedule/scheduler.h"
#include "runtime/session/response_log.h"
#include "runtime/text/chat_template.h"
#include "runtime/text/tokenizer.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::actors {

class Compute;

/// How often something may be restarted before it is given up: `restarts` within `window`.
struct RestartLimits {
  std::uint32_t restarts = 2;
  std::chrono::milliseconds window{60'000};
};

struct ReplicaSpec {
  ReplicaId replica{1};
  std::string model_name;  // as served
  Hash128 model_content;   // hash of the model file
  std::shared_ptr<const text::Tokenizer> tokenizer;
  std::shared_ptr<const text::ChatTemplate> chat_template;
  schedule::SchedulerOptions scheduler;  // context_tokens: 0 = the model's; eos: empty = the tokenizer's
  base::ParallelShape shape;
  exec::ShardSpec shard;                // of each rank, but its place and interface
  std::vector<std::string> interfaces;  // of the data plane, by rank; empty: none
  std::string codec = "auto";           // row of the codec table
  /// Of the one rank, in this process. Else processes are started: `start_rank` kills what is left of the rank, starts its process with
  /// that incarnation, and must not block; it joins through the door (company.h) within the time-out.
  std::function<std::unique_ptr<exec::ShardEngine>()> make_engine;
  std::function<void(std::uint16_t rank, Incarnation incarnation)> start_rank;
  std::chrono::milliseconds join_timeout{15'000};
  std::chrono::milliseconds watchdog{30'000};  // a step may take no longer; a second period ends the process
  RestartLimits epochs{.restarts = 100, .window = std::chrono::milliseconds{60'000}};
};

/// What the node's supervisor watches over. All callbacks may come from any CAF worker and must not block.
struct CompanySpec {
  ReplicaSpec replica;
  NodeId node{1};
  std::shared_ptr<base::Metrics> metrics;  // must be given
  RestartLimits actors;
  std::uint32_t retry_budget = 3;  // how often a request may be admitted again after the loss of its scheduler
  std::chrono::seconds session_ttl{3600};
  std::size_t max_stored_tokens = 16U << 20;                     // token ids the session store keeps in memory, over all responses
  std::optional<session::ResponseLogOptions> response_log = {};  // responses on disk; none: in memory only
  /// Nothing is left to serve: the process should end with `exit_code`. Streams have had their terminal events sent. At most once.
  std::function<void(int exit_code, const std::string& reason)> on_fatal;
  /// Load progress of rank 0 in bytes, at most 10 a second; and once when the first epoch is ready (facts of the group).
  std::function<void(std::size_t done, std::size_t total)> on_load_progress;
  std::function<void(const exec::ShardFacts& facts)> on_ready;
  /// The drain that was asked for is over; `cut` requests were ended by its deadline. Once.
  std::function<void(std::uint32_t cut)> on_drained;
  /// Tests: another compute than a thread, of the rank in this process; a look at every message that an actor sends (sender, receiver's
  /// CAF id, schema name).
  std::shared_ptr<Compute> compute;
  std::function<void(std::string_view sender, std::uint64_t receiver, std::string_view message)> tap;
};

}  // namespace troupe::actors
