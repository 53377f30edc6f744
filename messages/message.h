// Message<Schema>: one immutable, reference-counted, flat Cap'n Proto message. Copying it bumps a count, so in one process
// a message is never copied; between processes its bytes travel as they are (messages/caf_types.h).
// Any thread may read a message; nobody changes one after it was built.
#pragma once
#include <capnp/generated-header-support.h>
#include <capnp/message.h>
#include <capnp/serialize.h>
#include <kj/array.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

namespace troupe {

template <class Schema>
class Message {
 public:
  using schema = Schema;
  static constexpr std::size_t kMaxBytes = std::size_t{1} << 30;  // guard of the deserializer; wire messages are <= 1 MiB

  static constexpr unsigned kStackWords = 128;  // 1 KiB

  Message() = default;
  explicit Message(kj::Array<capnp::word> words) : body_(std::make_shared<const Body>(kj::mv(words))) {}
  explicit Message(capnp::MessageBuilder& builder) : Message(capnp::messageToFlatArray(builder)) {}

  /// `fill(Schema::Builder)` writes the fields. `first_words` is a size hint.
  template <class Fill>
  static Message build(Fill&& fill, unsigned first_words = 128) {
    if (first_words > kStackWords) {
      capnp::MallocMessageBuilder builder(first_words);
      fill(builder.initRoot<Schema>());
      return Message(builder);
    }
    capnp::word words[kStackWords] = {};  // most messages fit: no memory is taken but for the result
    capnp::MallocMessageBuilder builder(kj::arrayPtr(words, first_words));
    fill(builder.initRoot<Schema>());
    return Message(builder);
  }

  explicit operator bool() const noexcept { return body_ != nullptr; }
  typename Schema::Reader operator*() const { return body_->root; }
  const typename Schema::Reader* operator->() const { return &body_->root; }
  kj::ArrayPtr<const kj::byte> bytes() const { return body_ ? body_->words.asBytes() : nullptr; }
  long use_count() const { return body_.use_count(); }

  /// Name under which the type is registered for the wire.
  static std::string type_name() {
    char text[40];
    std::snprintf(text, sizeof text, "capnp:%016llx", static_cast<unsigned long long>(capnp::typeId<Schema>()));
    return text;
  }
  friend bool operator==(const Message& a, const Message& b) { return a.body_ == b.body_ || a.bytes() == b.bytes(); }

 private:
  struct Body {
    kj::Array<capnp::word> words;
    capnp::FlatArrayMessageReader reader;
    typename Schema::Reader root;  // taken here: getRoot() allocates lazily, which is not safe on first use by two threads
    explicit Body(kj::Array<capnp::word> w) : words(kj::mv(w)), reader(words.asPtr(), options()), root(reader.getRoot<Schema>()) {}
    // A shared reader's traversal limit is used up by all reads together, so it is set out of reach; the size is bounded instead.
    static capnp::ReaderOptions options() {
      capnp::ReaderOptions o;
      o.traversalLimitInWords = UINT64_MAX >> 1;
      o.nestingLimit = 64;
      return o;
    }
  };
  std::shared_ptr<const Body> body_;
};

}  // namespace troupe
