// ForwardPlan and ForwardResult: the only words the scheduler (ids) and the shards (bytes) have in common.
// Plain mirrors of messages/plan.capnp, which tells the protocol; actors/wire converts. Immutable once sent; any thread.
// Order within a plan: drops, adds, appends, copies, rows, samples. Deltas: shards keep tables and parameters.
#pragma once
#include "messages/ids.h"
#include "runtime/plan/block_moves.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace troupe::plan {

inline constexpr std::uint32_t kLastToken = 0xffffffff;     // a row's token: the one sampled last for its sequence
inline constexpr std::uint32_t kNextPosition = 0xffffffff;  // a run's position: right behind what the sequence holds
inline constexpr std::uint32_t kDraw = 0xffffffff;          // a sample's token: draw one; any other value: score that id
inline constexpr std::uint8_t kNoLogprobs = 255;
inline constexpr std::size_t kMostParts = 4;  // of a plan's rows that take turns

/// Checked by the gateway; the sampler trusts the ranges. Defaults sample from the plain distribution.
struct SamplingParameters {
  float temperature = 1.0F;  // 0 = greedy
  float top_p = 1.0F;        // (0, 1]
  float min_p = 0.0F;        // [0, 1]
  std::uint32_t top_k = 0;   // 0 = off
  std::uint64_t seed = 0;    // always set
  float repetition_penalty = 1.0F;
  float presence_penalty = 0.0F;
  float frequency_penalty = 0.0F;
  std::vector<TokenId> bias_tokens;  // sorted by id, <= 1024
  std::vector<float> biases;         // one an entry of bias_tokens, [-100, 100]
  std::uint8_t top_logprobs = kNoLogprobs;
  friend bool operator==(const SamplingParameters&, const SamplingParameters&) = default;
};

/// Consecutive positions of one sequence, consecutive rows of the batch.
struct RowRun {
  SequenceSlot sequence;
  std::uint32_t position = 0;  // of the first row; kNextPosition while results are in flight
  std::uint32_t rows = 0;      // draft_rows included
  std::uint16_t draft_rows = 0;
  friend bool operator==(const RowRun&, const RowRun&) = default;
};

/// One draw or score; several may name one row (n siblings).
struct Sample {
  std::uint32_t row = 0;  // index in ForwardPlan::tokens
  SequenceSlot sequence;  // whose parameters, choice and last token are used
  TokenId token = kDraw;
  std::uint8_t top_logprobs = kNoLogprobs;
  std::uint8_t flags = 0;
  friend bool operator==(const Sample&, const Sample&) = default;
};

/// Once in the life of a slot.
struct AddedSequence {
  SequenceSlot sequence;
  std::uint16_t choice = 0;     // draw = Philox(seed, choice, position)
  std::uint32_t length = 0;     // positions with K and V before its first row, those of a copy included
  std::vector<BlockId> blocks;  // table so far
  SamplingParameters sampling;
  std::vector<TokenId> history;  // tokens so far, only where penalties need them
  std::uint32_t generated_from = 0;
  friend bool operator==(const AddedSequence&, const AddedSequence&) = default;
};

struct ForwardPlan {
  GroupEpoch epoch;
  StepNumber step;
  std::vector<SequenceSlot> dropped;
  std::vector<AddedSequence> added;
  std::vector<SequenceSlot> append_slots;  // append_blocks[i] goes to the end of this slot's table
  std::vector<BlockId> append_blocks;
  std::vector<RowRun> runs;     // decode first, then prefill chunks
  std::vector<TokenId> tokens;  // one a row, run after run
  std::vector<Sample> samples;
  std::vector<BlockMove> copies;  // within the device, done before the step's rows
  /// Rows with which the second and further parts begin, ascending, fewer than kMostParts: parts are computed in turns, one's reduce under
  /// the others' compute (ISO). Empty = all rows at once. Any row may begin a part. Changes no bit of a result.
  std::vector<std::uint32_t> cuts;
  friend bool operator==(const ForwardPlan&, const ForwardPlan&) = default;
};

/// One a plan, in step order: all ranks are past their last access to the blocks that the plan's rows name.
struct ForwardResult {
  GroupEpoch epoch;
  StepNumber step;
  std::uint32_t compute_us = 0;
  std::uint32_t wait_us = 0;         // of compute_us, in which nothing was computed since a peer's bytes were missing
  std::uint32_t reduce_wait_us = 0;  // of wait_us, those of reduces; the others are of rows and ids from other stages
  std::uint32_t wire_us = 0;         // in which any reduce of the step was under way
  std::vector<TokenId> tokens;       // one a sample (a score's id repeated)
  std::vector<std::uint8_t> counts;  // tokens a sample, with drafts; empty = one each
  std::vector<float> logprobs;       // one an entry of tokens; empty where no sample wants any
  std::vector<TokenId> top_ids;      // samples with top_logprobs 1...20, flat, in order of samples
  std::vector<float> top_logprobs;
  std::vector<std::uint32_t> failed_samples;  // indices without a result (non-finite logits)
  friend bool operator==(const ForwardResult&, const ForwardResult&) = default;
};

}  // namespace troupe::plan
