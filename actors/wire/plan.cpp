#include "actors/wire/plan.h"

#include "actors/wire/common.h"
#include "actors/wire/moves.h"

namespace troupe::actors::wire {
namespace {
using wire::decode;
using wire::write;

void write(const plan::AddedSequence& added, messages::AddedSequence::Builder builder) {
  builder.setSequence(added.sequence.value);
  builder.setChoice(added.choice);
  builder.setLength(added.length);
  write_list(added.blocks, [&](unsigned n) { return builder.initBlocks(n); });
  wire::write(added.sampling, builder.initSampling());
  write_list(added.history, [&](unsigned n) { return builder.initHistory(n); });
  builder.setGeneratedFrom(added.generated_from);
}
plan::AddedSequence decode(messages::AddedSequence::Reader added) {
  plan::AddedSequence out;
  out.sequence = SequenceSlot{added.getSequence()};
  out.choice = added.getChoice();
  out.length = added.getLength();
  out.blocks = to_vector<BlockId>(added.getBlocks());
  out.sampling = wire::decode(added.getSampling());
  out.history = to_vector<TokenId>(added.getHistory());
  out.generated_from = added.getGeneratedFrom();
  return out;
}

void write(const plan::RowRun& run, messages::RowRun::Builder builder) {
  builder.setSequence(run.sequence.value);
  builder.setPosition(run.position);
  builder.setRows(run.rows);
  builder.setDraftRows(run.draft_rows);
}
plan::RowRun decode(messages::RowRun::Reader run) {
  return {SequenceSlot{run.getSequence()}, run.getPosition(), run.getRows(), run.getDraftRows()};
}

void write(const plan::Sample& sample, messages::Sample::Builder builder) {
  builder.setRow(sample.row);
  builder.setSequence(sample.sequence.value);
  builder.setToken(sample.token);
  builder.setTopLogprobs(sample.top_logprobs);
  builder.setFlags(sample.flags);
}
plan::Sample decode(messages::Sample::Reader sample) {
  return {sample.getRow(), SequenceSlot{sample.getSequence()}, sample.getToken(), sample.getTopLogprobs(), sample.getFlags()};
}

template <class Struct, class List>
void write_structs(const std::vector<Struct>& values, List list) {
  for (unsigned i = 0; i < list.size(); ++i) write(values[i], list[i]);
}
template <class Struct, class List>
std::vector<Struct> decode_structs(List list) {
  std::vector<Struct> values;
  values.reserve(list.size());
  for (auto item : list) values.push_back(decode(item));
  return values;
}

}  // namespace

Message<messages::ForwardPlan> encode(const plan::ForwardPlan& plan) {
  const auto rows = static_cast<unsigned>(plan.tokens.size());
  return Message<messages::ForwardPlan>::build(
      [&](messages::ForwardPlan::Builder builder) {
        builder.setEpoch(plan.epoch.value);
        builder.setStep(plan.step.value);
        write_list(plan.dropped, [&](unsigned n) { return builder.initDropped(n); });
        if (!plan.added.empty()) write_structs(plan.added, builder.initAdded(static_cast<unsigned>(plan.added.size())));
        write_list(plan.append_slots, [&](unsigned n) { return builder.initAppendSlots(n); });
        write_list(plan.append_blocks, [&](unsigned n) { return builder.initAppendBlocks(n); });
        if (!plan.runs.empty()) write_structs(plan.runs, builder.initRuns(static_cast<unsigned>(plan.runs.size())));
        write_list(plan.tokens, [&](unsigned n) { return builder.initTokens(n); });
        if (!plan.samples.empty()) write_structs(plan.samples, builder.initSamples(static_cast<unsigned>(plan.samples.size())));
        if (!plan.copies.empty()) write_structs(plan.copies, builder.initCopies(static_cast<unsigned>(plan.copies.size())));
        write_list(plan.cuts, [&](unsigned n) { return builder.initCuts(n); });
      },
      64 + rows / 2 + 4 * static_cast<unsigned>(plan.runs.size() + plan.samples.size() + 16 * plan.added.size()));
}

plan::ForwardPlan decode(messages::ForwardPlan::Reader plan) {
  plan::ForwardPlan out;
  out.epoch = GroupEpoch{plan.getEpoch()};
  out.step = StepNumber{plan.getStep()};
  out.dropped = to_vector<SequenceSlot>(plan.getDropped());
  out.added = decode_structs<plan::AddedSequence>(plan.getAdded());
  out.append_slots = to_vector<SequenceSlot>(plan.getAppendSlots());
  out.append_blocks = to_vector<BlockId>(plan.getAppendBlocks());
  out.runs = decode_structs<plan::RowRun>(plan.getRuns());
  out.tokens = to_vector<TokenId>(plan.getTokens());
  out.samples = decode_structs<plan::Sample>(plan.getSamples());
  out.copies = decode_structs<plan::BlockMove>(plan.getCopies());
  out.cuts = to_vector<std::uint32_t>(plan.getCuts());
  return out;
}

Message<messages::ForwardResult> encode(const plan::ForwardResult& result) {
  return Message<messages::ForwardResult>::build([&](messages::ForwardResult::Builder builder) {
    builder.setEpoch(result.epoch.value);
    builder.setStep(result.step.value);
    builder.setComputeMicros(result.compute_us);
    builder.setWaitMicros(result.wait_us);
    builder.setReduceWaitMicros(result.reduce_wait_us);
    builder.setWireMicros(result.wire_us);
    write_list(result.tokens, [&](unsigned n) { return builder.initTokens(n); });
    write_list(result.counts, [&](unsigned n) { return builder.initCounts(n); });
    write_list(result.logprobs, [&](unsigned n) { return builder.initLogprobs(n); });
    write_list(result.top_ids, [&](unsigned n) { return builder.initTopIds(n); });
    write_list(result.top_logprobs, [&](unsigned n) { return builder.initTopLogprobs(n); });
    write_list(result.failed_samples, [&](unsigned n) { return builder.initFailedSamples(n); });
  });
}

plan::ForwardResult decode(messages::ForwardResult::Reader result) {
  plan::ForwardResult out;
  out.epoch = GroupEpoch{result.getEpoch()};
  out.step = StepNumber{result.getStep()};
  out.compute_us = result.getComputeMicros();
  out.wait_us = result.getWaitMicros();
  out.reduce_wait_us = result.getReduceWaitMicros();
  out.wire_us = result.getWireMicros();
  out.tokens = to_vector<TokenId>(result.getTokens());
  out.counts = to_vector<std::uint8_t>(result.getCounts());
  out.logprobs = to_vector<float>(result.getLogprobs());
  out.top_ids = to_vector<TokenId>(result.getTopIds());
  out.top_logprobs = to_vector<float>(result.getTopLogprobs());
  out.failed_samples = to_vector<std::uint32_t>(result.getFailedSamples());
  return out;
}

}  // namespace troupe::actors::wire
