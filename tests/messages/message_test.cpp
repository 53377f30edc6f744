#include "messages/message.h"

#include "messages/error_reasons.h"
#include "messages/ids.h"
#include "messages/plan.capnp.h"
#include "messages/request.capnp.h"
#include "messages/supervision.capnp.h"

#include <catch2/catch.hpp>

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
