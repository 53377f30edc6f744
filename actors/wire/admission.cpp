#include "actors/wire/admission.h"

#include "actors/wire/common.h"

#include <algorithm>
#include <span>

namespace troupe::actors::wire {
namespace {

/// Tokens [from, to) of the prompt and the keys of the full blocks in them; `from` is a block boundary.
template <class Builder>
void write_page(const schedule::AdmitSequence& admit, std::size_t from, std::size_t to, Builder builder) {
  write_list(std::span(admit.tokens).subspan(from, to - from), [&](unsigned n) { return builder.initTokens(n); });
  const std::size_t first_key = std::min<std::size_t>(from / kBlockTokens, admit.keys.size());
  const std::size_t last_key = std::min<std::size_t>(to / kBlockTokens, admit.keys.size());
  auto keys = builder.initKeys(static_cast<unsigned>(last_key - first_key));
  for (unsigned i = 0; i < keys.size(); ++i) write(admit.keys[first_key + i], keys[i]);
}

}  // namespace

AdmissionPages encode(const schedule::AdmitSequence& admit, std::uint32_t page_tokens) {
  TROUPE_CHECK(page_tokens > 0 && page_tokens % kBlockTokens == 0);
  const std::size_t total = admit.tokens.size();
  AdmissionPages pages;
  pages.first = Message<messages::AdmitSequence>::build(
      [&](messages::AdmitSequence::Builder builder) {
        builder.setRequest(admit.request.value);
        builder.setAttempt(admit.attempt);
        builder.setPromptTokens(static_cast<std::uint32_t>(total));
        write_page(admit, 0, std::min<std::size_t>(page_tokens, total), builder);
        write(admit.key_domain, builder.initKeyDomain());
        builder.setGenerated(admit.generated);
        builder.setChoices(admit.choices);
        builder.setFirstChoice(admit.first_choice);
        builder.setMaxTokens(admit.max_tokens);
        write(admit.sampling, builder.initSampling());
        write_list(admit.stop_tokens, [&](unsigned n) { return builder.initStopTokens(n); });
        builder.setIgnoreEos(admit.ignore_eos);
        builder.setScoreFrom(admit.score_from);
        builder.setPriority(admit.priority);
        builder.setDeadlineMs(admit.deadline_ms);
        write(admit.owner, builder.initOwner());
      },
      64 + static_cast<unsigned>(std::min<std::size_t>(page_tokens, total)) * 9 / 16);
  for (std::size_t from = page_tokens; from < total; from += page_tokens)
    pages.rest.push_back(Message<messages::AppendPrompt>::build([&](messages::AppendPrompt::Builder builder) {
      builder.setRequest(admit.request.value);
      builder.setAttempt(admit.attempt);
      builder.setFirstChoice(admit.first_choice);
      builder.setOffset(static_cast<std::uint32_t>(from));
      write_page(admit, from, std::min<std::size_t>(from + page_tokens, total), builder);
    }));
  return pages;
}

schedule::AdmitSequence decode(messages::AdmitSequence::Reader admit) {
  schedule::AdmitSequence out;
  out.request = RequestId{admit.getRequest()};
  out.attempt = admit.getAttempt();
  out.tokens = to_vector<TokenId>(admit.getTokens());
  out.keys = decode_hashes(admit.getKeys());
  out.key_domain = decode(admit.getKeyDomain());
  out.generated = admit.getGenerated();
  out.choices = admit.getChoices();
  out.first_choice = admit.getFirstChoice();
  out.max_tokens = admit.getMaxTokens();
  out.sampling = decode(admit.getSampling());
  out.stop_tokens = to_vector<TokenId>(admit.getStopTokens());
  out.ignore_eos = admit.getIgnoreEos();
  out.score_from = admit.getScoreFrom();
  out.priority = admit.getPriority();
  out.deadline_ms = admit.getDeadlineMs();
  out.owner = decode(admit.getOwner());
  return out;
}

bool append_page(schedule::AdmitSequence& admit, messages::AppendPrompt::Reader page) {
  if (page.getOffset() != admit.tokens.size() || page.getTokens().size() == 0) return false;
  for (auto token : page.getTokens()) admit.tokens.push_back(token);
  for (auto key : page.getKeys()) admit.keys.push_back(decode(key));
  return true;
}

Message<messages::SequenceAdmitted> encode(const schedule::SequenceAdmitted& admitted) {
  return Message<messages::SequenceAdmitted>::build([&](messages::SequenceAdmitted::Builder builder) {
    builder.setRequest(admitted.request.value);
    builder.setAttempt(admitted.attempt);
    builder.setFirstChoice(admitted.first_choice);
    builder.setQueuedRequests(admitted.queued_requests);
    builder.setExpectedMs(admitted.expected_ms);
  });
}
schedule::SequenceAdmitted decode(messages::SequenceAdmitted::Reader admitted) {
  return {RequestId{admitted.getRequest()}, admitted.getAttempt(), admitted.getFirstChoice(), admitted.getQueuedRequests(),
          admitted.getExpectedMs()};
}

Message<messages::AdmissionRefused> encode(const schedule::AdmissionRefused& refused) {
  return Message<messages::AdmissionRefused>::build([&](messages::AdmissionRefused::Builder builder) {
    builder.setRequest(refused.request.value);
    builder.setAttempt(refused.attempt);
    builder.setFirstChoice(refused.first_choice);
    write(refused.error, builder.initError());
  });
}
schedule::AdmissionRefused decode(messages::AdmissionRefused::Reader refused) {
  return {RequestId{refused.getRequest()}, refused.getAttempt(), refused.getFirstChoice(), decode(refused.getError())};
}

Message<messages::AbortSequence> encode(const schedule::AbortSequence& abort) {
  return Message<messages::AbortSequence>::build([&](messages::AbortSequence::Builder builder) {
    builder.setRequest(abort.request.value);
    builder.setAttempt(abort.attempt);
    write_list(abort.choices, [&](unsigned n) { return builder.initChoices(n); });
  });
}
schedule::AbortSequence decode(messages::AbortSequence::Reader abort) {
  return {RequestId{abort.getRequest()}, abort.getAttempt(), to_vector<std::uint16_t>(abort.getChoices())};
}

Message<messages::TokensGenerated> encode(const schedule::TokensGenerated& tokens) {
  return Message<messages::TokensGenerated>::build(
      [&](messages::TokensGenerated::Builder builder) {
        builder.setRequest(tokens.request.value);
        builder.setAttempt(tokens.attempt);
        builder.setChoice(tokens.choice);
        builder.setFirst(tokens.first);
        write_list(tokens.tokens, [&](unsigned n) { return builder.initTokens(n); });
        if (!tokens.logprobs.chosen.empty()) write(tokens.logprobs, builder.initLogprobs());
        builder.setFinish(static_cast<messages::Finish>(tokens.finish));
        builder.setStopToken(tokens.stop_token);
        if (tokens.finish == schedule::Finish::kFailed) write(tokens.error, builder.initError());
        if (tokens.has_cache_report) write(tokens.cache, builder.initCache());
      },
      32);
}
schedule::TokensGenerated decode(messages::TokensGenerated::Reader tokens) {
  schedule::TokensGenerated out;
  out.request = RequestId{tokens.getRequest()};
  out.attempt = tokens.getAttempt();
  out.choice = tokens.getChoice();
  out.first = tokens.getFirst();
  out.tokens = to_vector<TokenId>(tokens.getTokens());
  if (tokens.hasLogprobs()) out.logprobs = decode(tokens.getLogprobs());
  out.finish = static_cast<schedule::Finish>(tokens.getFinish());
  out.stop_token = tokens.getStopToken();
  if (tokens.hasError()) out.error = decode(tokens.getError());
  out.has_cache_report = tokens.hasCache();
  if (out.has_cache_report) out.cache = decode(tokens.getCache());
  return out;
}

Message<messages::PromptScored> encode(const schedule::PromptScored& scored) {
  return Message<messages::PromptScored>::build([&](messages::PromptScored::Builder builder) {
    builder.setRequest(scored.request.value);
    builder.setAttempt(scored.attempt);
    builder.setFirst(scored.first);
    write(scored.logprobs, builder.initLogprobs());
  });
}
schedule::PromptScored decode(messages::PromptScored::Reader scored) {
  return {RequestId{scored.getRequest()}, scored.getAttempt(), scored.getFirst(), decode(scored.getLogprobs())};
}

Message<messages::ReplicaLoad> encode(const schedule::ReplicaLoad& load) {
  return Message<messages::ReplicaLoad>::build([&](messages::ReplicaLoad::Builder builder) {
    builder.setReplica(load.replica.value);
    builder.setEpoch(load.epoch.value);
    builder.setNumber(load.number);
    builder.setRunningSequences(load.running_sequences);
    builder.setWaitingRequests(load.waiting_requests);
    builder.setWaitingTokens(load.waiting_tokens);
    builder.setFreeBlocks(load.free_blocks);
    builder.setTotalBlocks(load.total_blocks);
    builder.setPrefillTokensPerSecond(load.prefill_tokens_per_second);
    builder.setStepMicros(load.step_us);
    builder.setState(static_cast<messages::ReplicaState>(load.state));
  });
}
schedule::ReplicaLoad decode(messages::ReplicaLoad::Reader load) {
  schedule::ReplicaLoad out;
  out.replica = ReplicaId{load.getReplica()};
  out.epoch = GroupEpoch{load.getEpoch()};
  out.number = load.getNumber();
  out.running_sequences = load.getRunningSequences();
  out.waiting_requests = load.getWaitingRequests();
  out.waiting_tokens = load.getWaitingTokens();
  out.free_blocks = load.getFreeBlocks();
  out.total_blocks = load.getTotalBlocks();
  out.prefill_tokens_per_second = load.getPrefillTokensPerSecond();
  out.step_us = load.getStepMicros();
  out.state = static_cast<schedule::ReplicaState>(load.getState());
  return out;
}

}  // namespace troupe::actors::wire
