#include "actors/wire/common.h"

namespace troupe::actors::wire {

Hash128 decode(messages::Hash128::Reader hash) { return {hash.getHigh(), hash.getLow()}; }
void write(const Hash128& hash, messages::Hash128::Builder builder) {
  builder.setHigh(hash.high);
  builder.setLow(hash.low);
}
std::vector<Hash128> decode_hashes(capnp::List<messages::Hash128>::Reader list) {
  std::vector<Hash128> hashes;
  hashes.reserve(list.size());
  for (auto hash : list) hashes.push_back(decode(hash));
  return hashes;
}
void write(const std::vector<Hash128>& hashes, capnp::List<messages::Hash128>::Builder list) {
  for (unsigned i = 0; i < list.size(); ++i) write(hashes[i], list[i]);
}

std::vector<BlockRange> decode_ranges(capnp::List<messages::BlockRange>::Reader list) {
  std::vector<BlockRange> ranges;
  ranges.reserve(list.size());
  for (auto range : list) ranges.push_back({range.getFirst(), range.getCount()});
  return ranges;
}
void write(const std::vector<BlockRange>& ranges, capnp::List<messages::BlockRange>::Builder list) {
  for (unsigned i = 0; i < list.size(); ++i) {
    list[i].setFirst(ranges[i].first);
    list[i].setCount(ranges[i].count);
  }
}

Error decode(messages::Error::Reader error) {
  // A class that this build does not know, from a newer node, is an internal error to it.
  const auto known = error.getClass() <= messages::ErrorClass::INTERNAL;
  return Error{known ? static_cast<ErrorClass>(error.getClass()) : ErrorClass::kInternal,
               static_cast<ErrorReason>(error.getReason()),
               to_string(error.getClientText()),
               to_string(error.getOperatorDetail()),
               to_string(error.getParameter()),
               error.getRetryAfterMs()};
}
void write(const Error& error, messages::Error::Builder builder) {
  builder.setClass(static_cast<messages::ErrorClass>(error.error_class));
  builder.setReason(static_cast<std::uint16_t>(error.reason));
  builder.setClientText(to_text(error.client_text));
  if (!error.operator_detail.empty()) builder.setOperatorDetail(to_text(error.operator_detail));
  if (!error.parameter.empty()) builder.setParameter(to_text(error.parameter));
  builder.setRetryAfterMs(error.retry_after_ms);
}

plan::SamplingParameters decode(messages::SamplingParameters::Reader sampling) {
  plan::SamplingParameters out;
  out.temperature = sampling.getTemperature();
  out.top_p = sampling.getTopP();
  out.min_p = sampling.getMinP();
  out.top_k = sampling.getTopK();
  out.seed = sampling.getSeed();
  out.repetition_penalty = sampling.getRepetitionPenalty();
  out.presence_penalty = sampling.getPresencePenalty();
  out.frequency_penalty = sampling.getFrequencyPenalty();
  out.bias_tokens = to_vector<TokenId>(sampling.getBiasTokens());
  out.biases = to_vector<float>(sampling.getBiases());
  out.top_logprobs = sampling.getTopLogprobs();
  return out;
}
void write(const plan::SamplingParameters& sampling, messages::SamplingParameters::Builder builder) {
  builder.setTemperature(sampling.temperature);
  builder.setTopP(sampling.top_p);
  builder.setMinP(sampling.min_p);
  builder.setTopK(sampling.top_k);
  builder.setSeed(sampling.seed);
  builder.setRepetitionPenalty(sampling.repetition_penalty);
  builder.setPresencePenalty(sampling.presence_penalty);
  builder.setFrequencyPenalty(sampling.frequency_penalty);
  write_list(sampling.bias_tokens, [&](unsigned n) { return builder.initBiasTokens(n); });
  write_list(sampling.biases, [&](unsigned n) { return builder.initBiases(n); });
  builder.setTopLogprobs(sampling.top_logprobs);
}

schedule::TopLogprobs decode(messages::TopLogprobs::Reader logprobs) {
  return {to_vector<float>(logprobs.getChosen()), logprobs.getWidth(), to_vector<TokenId>(logprobs.getIds()),
          to_vector<float>(logprobs.getLogprobs())};
}
void write(const schedule::TopLogprobs& logprobs, messages::TopLogprobs::Builder builder) {
  write_list(logprobs.chosen, [&](unsigned n) { return builder.initChosen(n); });
  builder.setWidth(logprobs.width);
  write_list(logprobs.ids, [&](unsigned n) { return builder.initIds(n); });
  write_list(logprobs.logprobs, [&](unsigned n) { return builder.initLogprobs(n); });
}

kv::CacheReport decode(messages::CacheReport::Reader report) {
  const auto tokens = report.getTokens();
  return {{tokens.getDevice(), tokens.getHost(), tokens.getDisk(), tokens.getComputed()},
          static_cast<kv::MissReason>(report.getMiss()),
          report.getLoadMicros()};
}
void write(const kv::CacheReport& report, messages::CacheReport::Builder builder) {
  auto tokens = builder.initTokens();
  tokens.setDevice(report.tokens.device);
  tokens.setHost(report.tokens.host);
  tokens.setDisk(report.tokens.disk);
  tokens.setComputed(report.tokens.computed);
  builder.setMiss(static_cast<messages::MissReason>(report.miss));
  builder.setLoadMicros(report.load_us);
}

}  // namespace troupe::actors::wire
