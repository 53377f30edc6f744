// Names of all metrics of the engine. vLLM's name where it has one, so that dashboards made for it work; troupe: for our own.
// Counters end in _total, as they are exposed: the library adds nothing.
#pragma once

namespace troupe::base::metric {

// Gauges of a replica.
inline constexpr char kRequestsRunning[] = "vllm:num_requests_running";
inline constexpr char kRequestsWaiting[] = "vllm:num_requests_waiting";
inline constexpr char kKvCacheUsage[] = "vllm:kv_cache_usage_perc";  // 0 ... 1
// Counters of a replica.
inline constexpr char kPrefixCacheQueries[] = "vllm:prefix_cache_queries_total";  // tokens
inline constexpr char kPrefixCacheHits[] = "vllm:prefix_cache_hits_total";        // tokens
inline constexpr char kPromptTokens[] = "vllm:prompt_tokens_total";
inline constexpr char kGenerationTokens[] = "vllm:generation_tokens_total";
inline constexpr char kPreemptions[] = "vllm:num_preemptions_total";
// Requests, as their sessions see them.
inline constexpr char kTimeToFirstToken[] = "vllm:time_to_first_token_seconds";
inline constexpr char kInterTokenLatency[] = "vllm:inter_token_latency_seconds";
inline constexpr char kRequestLatency[] = "vllm:e2e_request_latency_seconds";
inline constexpr char kRequestSuccess[] = "vllm:request_success_total";  // label finished_reason
// Our own.
inline constexpr char kRequestFailures[] = "troupe:request_failures_total";  // label reason
inline constexpr char kRequestRetries[] = "troupe:request_retries_total";
inline constexpr char kSteps[] = "troupe:steps_total";
inline constexpr char kStepSeconds[] = "troupe:step_seconds";
inline constexpr char kStallBudget[] = "troupe:stall_budget_seconds";
inline constexpr char kStallOverruns[] = "troupe:stall_overruns_total";
inline constexpr char kStepMargin[] = "troupe:step_margin";                    // measured over predicted time, of all but the worst steps
inline constexpr char kDeliveryReserve[] = "troupe:delivery_reserve_seconds";  // what delivery takes out of the stall budget
inline constexpr char kWastedRows[] = "troupe:wasted_rows_total";
inline constexpr char kOverlappedSteps[] = "troupe:overlapped_steps_total";
inline constexpr char kWireSeconds[] = "troupe:wire_seconds_total";  // in which a reduce was under way
inline constexpr char kWireWaitSeconds[] =
    "troupe:wire_wait_seconds_total";  // in which nothing was computed since a peer's bytes were missing
inline constexpr char kEpoch[] = "troupe:group_epoch";
inline constexpr char kEpochRestarts[] = "troupe:epoch_restarts_total";
inline constexpr char kActorRestarts[] = "troupe:actor_restarts_total";  // label role
inline constexpr char kCacheBlocks[] = "troupe:cache_blocks";            // label state
inline constexpr char kLeasedBlocks[] = "troupe:leased_blocks";          // free blocks the scheduler keeps at hand
inline constexpr char kEvictedBlocks[] = "troupe:evicted_blocks_total";
inline constexpr char kLoadedBlocks[] = "troupe:loaded_blocks_total";  // label tier
inline constexpr char kLoadSeconds[] = "troupe:load_seconds_total";
inline constexpr char kLoadsNotDone[] = "troupe:loads_not_done_total";  // label reason
// By tier (device, host, disk), where there is a tier below the device.
inline constexpr char kTierQueries[] = "troupe:cache_tier_queries_total";         // tokens
inline constexpr char kTierHits[] = "troupe:cache_tier_hits_total";               // tokens
inline constexpr char kTierBlocks[] = "troupe:cache_tier_blocks";                 // label state
inline constexpr char kTierUnwritten[] = "troupe:cache_tier_unwritten_blocks";    // not yet in the tier below
inline constexpr char kTierWritten[] = "troupe:cache_tier_written_blocks_total";  // into this tier
inline constexpr char kTierBytes[] = "troupe:cache_tier_written_bytes_total";
inline constexpr char kTierEvicted[] = "troupe:cache_tier_evicted_blocks_total";  // label written: yes = the tier below has had it
inline constexpr char kTierFailures[] = "troupe:cache_tier_failures_total";       // label what: write, load, room
inline constexpr char kStoredResponses[] = "troupe:stored_responses";
inline constexpr char kStoredResponseDiskBytes[] = "troupe:stored_response_disk_bytes";

}  // namespace troupe::base::metric
