// What a message is on the wire between nodes, and what a hostile one does: an error, never a crash or a huge allocation.
#include "messages/caf_types.h"

#include "messages/request.capnp.h"

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/binary_deserializer.hpp>
#include <caf/binary_serializer.hpp>
#include <catch2/catch.hpp>

#include <cstring>
#include <random>
#include <vector>

using namespace troupe;
using Delta = Message<messages::TokenDelta>;

namespace {
std::vector<char> to_wire(caf::actor_system& system, Delta& message) {
  std::vector<char> bytes;
  caf::binary_serializer sink(system, bytes);
  REQUIRE_FALSE(static_cast<bool>(sink(message)));
  return bytes;
}
bool from_wire(caf::actor_system& system, const std::vector<char>& bytes, Delta& message) {
  caf::binary_deserializer source(system, bytes);
  return !source(message);
}
Delta sample() {
  return Delta::build([](messages::TokenDelta::Builder delta) {
    delta.setRequest(7);
    delta.initPieces(1)[0].setText("some text");
  });
}
}  // namespace

TEST_CASE("a message crosses the wire as its words") {
  caf::actor_system_config config;
  config.set("scheduler.max-threads", std::size_t{1});
  caf::actor_system system(config);
  auto message = sample();
  const auto bytes = to_wire(system, message);
  Delta back;
  REQUIRE(from_wire(system, bytes, back));
  CHECK(back == message);
  CHECK(std::string(back->getPieces()[0].getText().cStr()) == "some text");
  Delta empty, empty_back = sample();
  REQUIRE(from_wire(system, to_wire(system, empty), empty_back));
  CHECK_FALSE(static_cast<bool>(empty_back));

  SECTION("truncated anywhere") {
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      Delta cut;
      CHECK_FALSE(from_wire(system, {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)}, cut));
    }
  }
  SECTION("a lying length takes no memory") {
    auto lie = bytes;
    for (std::uint64_t size : {std::uint64_t{1} << 29, std::uint64_t{1} << 40, std::uint64_t{13}}) {
      for (int i = 0; i < 8; ++i) lie[static_cast<std::size_t>(i)] = static_cast<char>(size >> (56 - 8 * i));
      Delta none;
      CHECK_FALSE(from_wire(system, lie, none));
    }
  }
  SECTION("random damage is an error, or a readable message") {
    std::mt19937 random(11);
    for (int round = 0; round < 3000; ++round) {
      auto damaged = bytes;
      for (int i = 0; i < 3; ++i) damaged[8 + random() % (damaged.size() - 8)] = static_cast<char>(random());
      Delta read;
      if (!from_wire(system, damaged, read)) continue;
      try {
        for (auto piece : read->getPieces()) (void)std::strlen(piece.getText().cStr());
      } catch (const kj::Exception&) {
      }
    }
  }
}
