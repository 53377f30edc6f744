// Plain values that several protocols share <-> messages/common.capnp. Pure functions; any thread.
// Decoding reads what was sent by this program or came through TLS from another node of it; a bad pointer throws kj::Exception, which
// ends the actor that reads it, never the process.
#pragma once
#include "messages/common.capnp.h"
#include "messages/error.h"
#include "messages/ids.h"
#include "runtime/kv/tier_messages.h"
#include "runtime/plan/forward_plan.h"
#include "runtime/schedule/admission.h"

#include <capnp/list.h>

#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace troupe::actors::wire {

/// Number on the wire of an id or a plain number.
template <class Value>
auto number_of(const Value& value) {
  if constexpr (std::is_arithmetic_v<Value>)
    return value;
  else
    return value.value;
}

/// A list of numbers to a vector of numbers or StrongIds.
template <class Element, class Reader>
std::vector<Element> to_vector(Reader list) {
  std::vector<Element> values;
  values.reserve(list.size());
  for (auto item : list) values.push_back(Element{item});
  return values;
}

/// Writes `values` into the list that `init(size)` makes; an empty one is left out.
template <class Values, class Init>
void write_list(const Values& values, Init init) {
  if (values.empty()) return;
  auto list = init(static_cast<unsigned>(values.size()));
  for (unsigned i = 0; i < list.size(); ++i) list.set(i, number_of(values[i]));
}

inline std::string_view to_view(capnp::Text::Reader text) { return {text.begin(), text.size()}; }
inline std::string to_string(capnp::Text::Reader text) { return {text.begin(), text.size()}; }
inline capnp::Text::Reader to_text(const std::string& text) { return {text.c_str(), text.size()}; }
/// Opaque bytes.
inline std::string to_bytes(capnp::Data::Reader data) { return {reinterpret_cast<const char*>(data.begin()), data.size()}; }
inline capnp::Data::Reader to_data(const std::string& bytes) { return {reinterpret_cast<const kj::byte*>(bytes.data()), bytes.size()}; }

Hash128 decode(messages::Hash128::Reader hash);
void write(const Hash128& hash, messages::Hash128::Builder builder);
std::vector<Hash128> decode_hashes(capnp::List<messages::Hash128>::Reader list);
void write(const std::vector<Hash128>& hashes, capnp::List<messages::Hash128>::Builder list);

std::vector<BlockRange> decode_ranges(capnp::List<messages::BlockRange>::Reader list);
void write(const std::vector<BlockRange>& ranges, capnp::List<messages::BlockRange>::Builder list);

Error decode(messages::Error::Reader error);
void write(const Error& error, messages::Error::Builder builder);

plan::SamplingParameters decode(messages::SamplingParameters::Reader sampling);
void write(const plan::SamplingParameters& sampling, messages::SamplingParameters::Builder builder);

schedule::TopLogprobs decode(messages::TopLogprobs::Reader logprobs);
void write(const schedule::TopLogprobs& logprobs, messages::TopLogprobs::Builder builder);

kv::CacheReport decode(messages::CacheReport::Reader report);
void write(const kv::CacheReport& report, messages::CacheReport::Builder builder);

}  // namespace troupe::actors::wire
