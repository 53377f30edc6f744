// A message whose bytes come from another process: checked once, as its schema has it, before anybody reads it. Pure, any thread.
// Invariant: what passes can be read field by field without an exception, at a cost in proportion to its bytes; Cap'n Proto's own guard
// (a traversal limit) is off in Message, since all readers of a shared message would use it up together.
#pragma once
#include "messages/message.h"

#include <capnp/dynamic.h>
#include <kj/exception.h>

#include <optional>

namespace troupe {

/// Reads every field of `message` that is set. Throws kj::Exception: a pointer of another type, out of bounds or too deep, text without
/// its end. False: parts overlap or lists claim more elements than `budget` allows.
inline bool readable(capnp::DynamicStruct::Reader message, std::uint64_t& budget);

namespace detail {
inline bool spend(std::uint64_t& budget, std::uint64_t cost) {
  if (cost > budget) return false;
  budget -= cost;
  return true;
}

/// Whether a value of this kind holds no pointer, so that there is nothing to check.
inline bool is_plain(capnp::schema::Type::Which kind) {
  return kind != capnp::schema::Type::STRUCT && kind != capnp::schema::Type::LIST && kind != capnp::schema::Type::TEXT &&
         kind != capnp::schema::Type::DATA;
}

inline bool readable(capnp::DynamicValue::Reader value, std::uint64_t& budget) {
  switch (value.getType()) {
    case capnp::DynamicValue::STRUCT: return troupe::readable(value.as<capnp::DynamicStruct>(), budget);
    case capnp::DynamicValue::LIST: {
      const auto list = value.as<capnp::DynamicList>();
      const auto kind = list.getSchema().whichElementType();
      if (!spend(budget, 1 + list.size() / (kind == capnp::schema::Type::BOOL ? 8 : 1))) return false;
      for (unsigned i = 0; !is_plain(kind) && i < list.size(); ++i)
        if (!readable(list[i], budget)) return false;
      return true;
    }
    case capnp::DynamicValue::TEXT: return spend(budget, 1 + value.as<capnp::Text>().size());
    case capnp::DynamicValue::DATA: return spend(budget, 1 + value.as<capnp::Data>().size());
    default: return true;
  }
}
}  // namespace detail

inline bool readable(capnp::DynamicStruct::Reader message, std::uint64_t& budget) {
  if (!detail::spend(budget, 1)) return false;
  const auto read = [&](capnp::StructSchema::Field field) {
    return detail::is_plain(field.getType().which()) || !message.has(field) || detail::readable(message.get(field), budget);
  };
  for (const auto field : message.getSchema().getNonUnionFields())
    if (!read(field)) return false;
  KJ_IF_MAYBE (chosen, message.which()) return read(*chosen);
  return true;
}

/// nullopt: these words are no message of this schema.
template <class Schema>
std::optional<Message<Schema>> receive_message(kj::Array<capnp::word> words) {
  // A byte of a list may be an element; nothing else is smaller. Defaults of absent fields come on top.
  std::uint64_t budget = 8 * words.size() + 1024;
  try {
    Message<Schema> message(kj::mv(words));
    if (!readable(capnp::DynamicStruct::Reader(*message), budget)) return std::nullopt;
    return message;
  } catch (const kj::Exception&) {
    return std::nullopt;
  }
}

}  // namespace troupe
