// What RequestSession and Scheduler say to each other, as plain values; mirrors messages/admission.capnp.
#pragma once
#include "messages/error.h"
#include "messages/ids.h"
#include "runtime/kv/tier_messages.h"
#include "runtime/plan/forward_plan.h"

#include <cstdint>
#include <vector>

namespace troupe::schedule {

struct AdmitSequence {
  RequestId request;
  std::uint16_t attempt = 0;
  std::vector<TokenId> tokens;  // whole prompt (pages joined by the actor)
  std::vector<BlockKey> keys;   // of the prompt's full blocks
  Hash128 key_domain;           // seeds the keys of generated blocks
  std::uint32_t generated = 0;  // resume: how many of the last tokens were generated
  std::uint16_t choices = 1;
  std::uint16_t first_choice = 0;
  std::uint32_t max_tokens = 0;  // each choice may still generate; 0 = prefill only
  plan::SamplingParameters sampling;
  std::vector<TokenId> stop_tokens;
  bool ignore_eos = false;
  std::uint32_t score_from = kNone32;
  std::int32_t priority = 0;
  std::uint32_t deadline_ms = 0;  // left, from receipt; 0 = none
  Hash128 owner;
};
struct SequenceAdmitted {
  RequestId request;
  std::uint16_t attempt = 0, first_choice = 0;
  std::uint32_t queued_requests = 0, expected_ms = 0;
};
struct AdmissionRefused {
  RequestId request;
  std::uint16_t attempt = 0, first_choice = 0;
  Error error;
};
struct AbortSequence {
  RequestId request;
  std::uint16_t attempt = 0;
  std::vector<std::uint16_t> choices;  // empty = all
};

enum class Finish : std::uint16_t { kRunning, kStop, kLength, kFailed };

/// Natural log-probabilities of a run of tokens, flat; width entries a token in the last two.
struct TopLogprobs {
  std::vector<float> chosen;
  std::uint8_t width = 0;
  std::vector<TokenId> ids;
  std::vector<float> logprobs;
};
struct TokensGenerated {
  RequestId request;
  std::uint16_t attempt = 0, choice = 0;
  std::uint32_t first = 0;  // position of tokens[0] among the generated tokens of this attempt
  std::vector<TokenId> tokens;
  TopLogprobs logprobs;  // empty unless asked for
  Finish finish = Finish::kRunning;
  TokenId stop_token = 0;         // finish == kStop
  Error error;                    // finish == kFailed
  bool has_cache_report = false;  // in the first message of the lowest choice
  kv::CacheReport cache;
};
struct PromptScored {
  RequestId request;
  std::uint16_t attempt = 0;
  std::uint32_t first = 0;
  TopLogprobs logprobs;
};
enum class ReplicaState : std::uint16_t { kServing, kRestarting, kDraining };
struct ReplicaLoad {
  ReplicaId replica;
  GroupEpoch epoch;
  std::uint64_t number = 0;
  std::uint32_t running_sequences = 0, waiting_requests = 0;
  std::uint64_t waiting_tokens = 0;
  std::uint32_t free_blocks = 0, total_blocks = 0;
  float prefill_tokens_per_second = 0;
  std::uint32_t step_us = 0;
  ReplicaState state = ReplicaState::kServing;
};

}  // namespace troupe::schedule
