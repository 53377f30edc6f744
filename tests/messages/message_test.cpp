#include "messages/message.h"

#include "messages/error_reasons.h"
#include "messages/ids.h"
#include "messages/plan.capnp.h"
#include "messages/received_message.h"
#include "messages/request.capnp.h"
#include "messages/supervision.capnp.h"

#include <catch2/catch.hpp>

#include <cstring>
#include <set>
#include <thread>
#include <vector>

using namespace troupe;

namespace {
Message<messages::DrainNode> drain(std::uint32_t grace) {
  return Message<messages::DrainNode>::build([&](messages::DrainNode::Builder b) { b.setGraceMs(grace); });
}
}  // namespace

TEST_CASE("a copy of a message shares its words") {
  const auto message = drain(5);
  const auto copy = message;
  CHECK(copy.bytes().begin() == message.bytes().begin());
  CHECK(message.use_count() == 2);
  CHECK(copy->getGraceMs() == 5);
  CHECK(copy == message);
  CHECK(drain(5) == message);
  CHECK_FALSE(drain(6) == message);
  CHECK_FALSE(static_cast<bool>(Message<messages::DrainNode>()));
}

TEST_CASE("each schema has its own stable name") {
  std::set<std::string> names{Message<messages::DrainNode>::type_name(), Message<messages::Drained>::type_name(),
                              Message<messages::ForwardPlan>::type_name(), Message<messages::ForwardResult>::type_name()};
  CHECK(names.size() == 4);
  CHECK(Message<messages::DrainNode>::type_name() == Message<messages::DrainNode>::type_name());
}

TEST_CASE("words that are no message throw and do not crash") {
  auto words = kj::heapArray<capnp::word>(2);
  for (auto& byte : words.asBytes()) byte = 0xff;
  CHECK_THROWS(Message<messages::ForwardPlan>(kj::mv(words)));
}

TEST_CASE("a large shared message can be read for ever, from many threads") {
  const auto message = Message<messages::ForwardPlan>::build([](messages::ForwardPlan::Builder plan) {
    auto tokens = plan.initTokens(100'000);
    for (unsigned i = 0; i < tokens.size(); ++i) tokens.set(i, i);
  });
  std::vector<std::thread> readers;
  std::atomic<std::uint64_t> sum{0};
  for (int t = 0; t < 4; ++t)
    readers.emplace_back([&] {
      for (int round = 0; round < 100; ++round) {  // 40 MB read: beyond a reader's default limit
        std::uint64_t mine = 0;
        for (auto token : message->getTokens()) mine += token;
        sum += mine;
      }
    });
  for (auto& reader : readers) reader.join();
  CHECK(sum == 400ULL * (100'000ULL * 99'999ULL / 2));
}

TEST_CASE("reasons: numbers and names are unique, an unknown one is internal") {
  std::set<std::string_view> names;
  std::size_t rows = 0;
#define TROUPE_ROW(symbol, number, name)                            \
  CHECK(static_cast<std::uint16_t>(ErrorReason::symbol) == number); \
  names.insert(reason_name(ErrorReason::symbol));                   \
  ++rows;
  TROUPE_ERROR_REASONS(TROUPE_ROW)
#undef TROUPE_ROW
  CHECK(names.size() == rows);
  CHECK(reason_name(static_cast<ErrorReason>(60'000)) == "internal_error");
}

TEST_CASE("a result is a value or an error") {
  const Result<int> good(3), bad(make_error(ErrorClass::kNotFound, ErrorReason::kUnknownModel, "no such model", "model"));
  CHECK(*good == 3);
  CHECK_FALSE(bad);
  CHECK(bad.error().parameter == "model");
  CHECK_THROWS_AS(bad.value(), std::logic_error);
  CHECK_THROWS_AS([] { TROUPE_CHECK(1 + 1 == 3); }(), InvariantViolation);
}

TEST_CASE("the classes of schema and header are one list") {
  CHECK(static_cast<int>(messages::ErrorClass::INTERNAL) == static_cast<int>(ErrorClass::kInternal));
  CHECK(static_cast<int>(messages::ErrorClass::CONTEXT_TOO_LONG) == static_cast<int>(ErrorClass::kContextTooLong));
  CHECK(static_cast<int>(messages::ErrorClass::GROUP_LOST) == static_cast<int>(ErrorClass::kGroupLost));
}

namespace {

using Submit = messages::SubmitRequest;

kj::Array<capnp::word> words_of(const Message<Submit>& message) {
  auto words = kj::heapArray<capnp::word>(message.bytes().size() / sizeof(capnp::word));
  std::memcpy(words.begin(), message.bytes().begin(), message.bytes().size());
  return words;
}

Message<Submit> submit_sample() {
  return Message<Submit>::build([](Submit::Builder submit) {
    submit.setModel("a model");
    auto items = submit.initInput().initItems(2);
    items[0].setText("some text of an item");
    items[1].setRole("user");
    submit.initStops(1).set(0, "stop");
  });
}

std::uint64_t& word_at(kj::Array<capnp::word>& words, std::size_t at) { return reinterpret_cast<std::uint64_t*>(words.begin())[at]; }

}  // namespace

TEST_CASE("a message from outside is received if every field of it can be read") {
  const auto message = submit_sample();
  const auto received = receive_message<Submit>(words_of(message));
  REQUIRE(received);
  CHECK(*received == message);
  CHECK_FALSE(receive_message<Submit>(nullptr));
}

TEST_CASE("lists of nothing and parts that overlap do not pass: they cost more than they weigh") {
  // A root that has no data and the pointers of SubmitRequest; the one of its stop tokens names a list of 2^29 - 1 structs without fields.
  const auto pointers = capnp::Schema::from<Submit>().getProto().getStruct().getPointerCount();
  auto words = kj::heapArray<capnp::word>(3 + pointers);
  std::memset(words.begin(), 0, words.asBytes().size());
  word_at(words, 0) = std::uint64_t{2 + pointers} << 32;               // one segment
  word_at(words, 1) = std::uint64_t{pointers} << 48;                   // root: no data, pointers behind it
  word_at(words, 2 + pointers) = ((std::uint64_t{1} << 29) - 1) << 2;  // tag: elements of no words
  std::size_t refused = 0;
  for (std::size_t pointer = 0; pointer < pointers; ++pointer) {
    auto hostile = kj::heapArray<capnp::word>(words.asPtr());
    word_at(hostile, 2 + pointer) = std::uint64_t{pointers - pointer - 1} << 2 | 1 | std::uint64_t{7} << 32;
    refused += receive_message<Submit>(kj::mv(hostile)) ? 0 : 1;
  }
  CHECK(refused == pointers);
  // A hundred items whose texts are one and the same 4,000 bytes.
  constexpr std::size_t kItems = 100, kText = 4000;
  auto shared = words_of(Message<Submit>::build(
      [](Submit::Builder submit) { submit.initInput().initItems(kItems)[0].setText(std::string(kText, 'x')); }, 4096));  // one segment
  CHECK(receive_message<Submit>(kj::heapArray<capnp::word>(shared.asPtr())));
  const auto shape = capnp::Schema::from<messages::InputItem>().getProto().getStruct();
  const std::size_t stride = shape.getDataWordCount() + shape.getPointerCount();
  std::size_t at = 0;
  while (word_at(shared, at) >> 32 != ((kText + 1) << 3 | 2)) ++at;  // the pointer to the text
  const std::uint64_t pointer = word_at(shared, at);
  for (std::size_t i = 1; i < kItems; ++i) word_at(shared, at + i * stride) = pointer - (std::uint64_t{i * stride} << 2);
  CHECK_FALSE(receive_message<Submit>(kj::mv(shared)));
}

TEST_CASE("damage anywhere is refused, or leaves a message that can be read") {
  const auto message = submit_sample();
  const std::size_t count = message.bytes().size() / sizeof(capnp::word);
  std::size_t received_count = 0, refused = 0;
  for (std::size_t word = 0; word < count; ++word) {
    for (const std::uint64_t value : {std::uint64_t{0}, ~std::uint64_t{0}, std::uint64_t{1} << 33 | 1, std::uint64_t{7} << 32 | 1,
                                      std::uint64_t{2}, std::uint64_t{3}}) {
      auto words = words_of(message);
      word_at(words, word) = value;
      const auto received = receive_message<Submit>(kj::mv(words));
      (received ? received_count : refused) += 1;
      if (!received) continue;
      std::size_t bytes = (*received)->getModel().size();
      if ((*received)->getInput().isItems())
        for (auto item : (*received)->getInput().getItems()) bytes += item.getText().size() + item.getRole().size();
      CHECK(bytes < 10'000);
    }
  }
  CHECK(received_count > 10);
  CHECK(refused > 10);
}
