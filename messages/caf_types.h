// What CAF needs to carry a Message<Schema>: inspectors for the wire and for logging. The only file in messages/ that knows CAF.
#pragma once
#include "messages/message.h"
#include "messages/received_message.h"

#include <caf/binary_deserializer.hpp>
#include <caf/deserializer.hpp>
#include <caf/detail/stringification_inspector.hpp>
#include <caf/error.hpp>
#include <caf/meta/type_name.hpp>
#include <caf/sec.hpp>
#include <caf/serializer.hpp>

namespace troupe {

template <class Schema>
caf::error inspect(caf::serializer& sink, Message<Schema>& message) {
  auto bytes = message.bytes();
  std::uint64_t size = bytes.size();
  if (auto error = sink(size)) return error;
  return size != 0 ? sink.apply_raw(size, const_cast<kj::byte*>(bytes.begin())) : caf::error{};
}

template <class Schema>
caf::error inspect(caf::deserializer& source, Message<Schema>& message) {
  std::uint64_t size = 0;
  if (auto error = source(size)) return error;
  if (size == 0) {
    message = Message<Schema>();
    return caf::none;
  }
  if (size % sizeof(capnp::word) != 0 || size > Message<Schema>::kMaxBytes) return caf::sec::invalid_argument;
  // A lying length must fail before memory is taken for it.
  if (auto* binary = dynamic_cast<caf::binary_deserializer*>(&source); binary != nullptr && size > binary->remaining())
    return caf::sec::end_of_stream;
  auto words = kj::heapArray<capnp::word>(size / sizeof(capnp::word));
  if (auto error = source.apply_raw(size, words.asBytes().begin())) return error;
  auto received = receive_message<Schema>(kj::mv(words));
  if (!received) return caf::sec::malformed_basp_message;
  message = *std::move(received);
  return caf::none;
}

template <class Schema>
void inspect(caf::detail::stringification_inspector& sink, Message<Schema>& message) {
  std::size_t size = message.bytes().size();  // never the content: it may be prompt text
  sink(caf::meta::type_name("Message"), size);
}

}  // namespace troupe
