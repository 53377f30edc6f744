// What every transport must do, over all rows of the table.
#include "runtime/collective/transport_table.h"
#include "tests/runtime/collective/rank_threads.h"
#include "tests/support/random.h"

#include <catch2/catch.hpp>
#include <algorithm>
#include <cstring>
#include <deque>
#include <numeric>
#include <thread>

using namespace troupe;
using namespace troupe::collective;
using test::need;
using test::RankThreads;

namespace {
std::vector<TransportSpec> specs() {
  std::vector<TransportSpec> all{{"loopback", "", nullptr}};
#ifndef __SANITIZE_THREAD__  // UCX is not instrumented
  all.push_back({"ucx", "", nullptr});
  all.push_back({"ucx", "lo", nullptr});
#endif
  return all;
}

std::string name(const TransportSpec& spec) { return spec.name + (spec.interface.empty() ? "" : " over " + spec.interface); }

/// Bytes that tell sender, receiver, channel and number.
std::vector<std::byte> message(std::size_t from, std::size_t to, Channel channel, std::size_t number, std::size_t size) {
  test::SmallRandom random(from * 1000003 + to * 10007 + static_cast<std::size_t>(channel) * 101 + number * 7919);
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; i += sizeof(std::uint64_t)) {
    const std::uint64_t word = random.next();
    std::memcpy(bytes.data() + i, &word, std::min(sizeof word, size - i));
  }
  return bytes;
}

void progress_until_done(Transport& transport, const std::deque<Transfer>& transfers, const std::atomic<bool>& abort) {
  while (!std::all_of(transfers.begin(), transfers.end(), [](const Transfer& transfer) { return transfer.done; })) {
    need(!abort, "another rank failed");
    transport.progress();
    std::this_thread::yield();
  }
}

constexpr std::size_t kSizes[] = {5, 0, 1, 4096, 0, 300'000, 3, 900'003, 64, 65'536};

/// All ranks send messages of all sizes to all others, on all channels; each asks for its own before it sends, or when some have come.
void exchange(Transport& transport, const std::atomic<bool>& abort, bool receive_first, std::size_t repeat) {
  struct Line {
    std::size_t peer;
    Channel channel;
    std::size_t number;
    std::vector<std::byte> sent, got;
  };
  std::deque<Line> lines;
  for (std::size_t peer = 0; peer < transport.ranks(); ++peer) {
    if (peer == transport.rank()) continue;
    for (std::size_t c = 0; c < kChannels; ++c) {
      for (std::size_t i = 0; i < std::size(kSizes) * repeat; ++i) {
        const std::size_t size = kSizes[i % std::size(kSizes)] / (repeat == 1 ? 1 : 16);
        const auto channel = static_cast<Channel>(c);
        lines.push_back({peer, channel, i, message(transport.rank(), peer, channel, i, size), std::vector<std::byte>(size)});
      }
    }
  }
  std::deque<Transfer> transfers;
  const auto send = [&] {
    // Other channels first where ranks are odd: only the order within a channel counts.
    std::vector<Line*> order;
    for (Line& line : lines) order.push_back(&line);
    if (transport.rank() % 2) std::stable_sort(order.begin(), order.end(), [](Line* a, Line* b) { return a->channel > b->channel; });
    for (Line* line : order) transport.send(line->peer, line->channel, line->sent, transfers.emplace_back());
  };
  const auto receive = [&] {
    for (Line& line : lines) transport.receive(line.peer, line.channel, line.got, transfers.emplace_back());
  };
  if (receive_first) receive();
  send();
  if (!receive_first) {
    for (int i = 0; i < 100; ++i) transport.progress();  // so that some come before they are wanted
    receive();
  }
  progress_until_done(transport, transfers, abort);
  for (const Line& line : lines)
    need(line.got == message(line.peer, transport.rank(), line.channel, line.number, line.got.size()),
         "message " + std::to_string(line.number) + " from rank " + std::to_string(line.peer) + " is another one");
  need(std::all_of(transfers.begin(), transfers.end(), [](const Transfer& t) { return t.done_at.time_since_epoch().count() != 0; }),
       "a transfer that is done does not say since when");
}
}  // namespace

TEST_CASE("messages of all sizes arrive in order on each channel") {
  const auto spec = GENERATE(from_range(specs()));
  const std::size_t ranks = GENERATE(2u, 3u);
  CAPTURE(name(spec), ranks);
  RankThreads group(spec, ranks);
  group.run([&](std::unique_ptr<Transport> transport) {
    need(transport->ranks() == ranks, "ranks");
    exchange(*transport, group.abort, true, 1);
    exchange(*transport, group.abort, false, 1);
    exchange(*transport, group.abort, false, 3);
  });
}

TEST_CASE("a rank alone meets nobody") {
  const auto spec = GENERATE(from_range(specs()));
  RankThreads group(spec, 1);
  group.run([&](std::unique_ptr<Transport> transport) {
    need(transport->ranks() == 1 && transport->rank() == 0, "place");
    transport->progress();
  });
}

TEST_CASE("many small messages go back and forth") {
  const auto spec = GENERATE(from_range(specs()));
  CAPTURE(name(spec));
  RankThreads group(spec, 2);
  group.run([&](std::unique_ptr<Transport> transport) {
    const std::size_t me = transport->rank(), peer = 1 - me;
    for (std::size_t i = 0; i < 100; ++i) {
      const std::vector<std::byte> sent = message(me, peer, Channel::kRows, i, i % 50);
      std::vector<std::byte> got(i % 50);
      std::deque<Transfer> transfers(2);
      transport->receive(peer, Channel::kRows, got, transfers[0]);
      transport->send(peer, Channel::kRows, sent, transfers[1]);
      progress_until_done(*transport, transfers, group.abort);
      need(got == message(peer, me, Channel::kRows, i, i % 50), "message " + std::to_string(i));
    }
  });
}

TEST_CASE("a message of another length than expected is a lost peer") {
  const auto spec = GENERATE(from_range(specs()));
  const std::size_t size = GENERATE(0u, 10u, 30u, 300'000u);
  CAPTURE(name(spec), size);
  RankThreads group(spec, 2);
  const auto outcomes = group.outcomes([&](std::unique_ptr<Transport> given) {
    std::vector<std::byte> bytes(given->rank() == 0 ? size : 20);
    std::deque<Transfer> transfers(1);
    const std::unique_ptr<Transport> transport = std::move(given);  // goes before the bytes
    if (transport->rank() == 0)
      transport->send(1, Channel::kRows, bytes, transfers[0]);
    else
      transport->receive(0, Channel::kRows, bytes, transfers[0]);
    while (!group.abort && (transport->rank() == 0 || !transfers[0].done)) transport->progress();
    need(transport->rank() == 0, "taken");
  });
  CHECK_THAT(outcomes[1], Catch::Contains("where 20 were expected"));
}

TEST_CASE("a peer that left is lost to who waits for it") {
  const auto spec = GENERATE(from_range(specs()));
  CAPTURE(name(spec));
  RankThreads group(spec, 2);
  const auto outcomes = group.outcomes([&](std::unique_ptr<Transport> given) {
    if (given->rank() == 0) return;
    std::byte byte{};
    std::deque<Transfer> transfers(1);
    const std::unique_ptr<Transport> transport = std::move(given);
    transport->receive(0, Channel::kRows, {&byte, 1}, transfers[0]);
    for (;;) transport->progress();
  });
  CHECK(outcomes[0].empty());
  CHECK_THAT(outcomes[1], Catch::Contains("rank 0"));
}

TEST_CASE("what was sent before its sender left still arrives") {
  const auto spec = GENERATE(from_range(specs()));
  CAPTURE(name(spec));
  RankThreads group(spec, 2);
  group.run([&](std::unique_ptr<Transport> transport) {
    std::vector<std::byte> bytes = message(0, 1, Channel::kTokens, 1, 40);
    std::deque<Transfer> transfers(1);
    if (transport->rank() == 0) {
      transport->send(1, Channel::kTokens, bytes, transfers[0]);
      transport->progress();
      transport.reset();
      std::fill(bytes.begin(), bytes.end(), std::byte{});
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::vector<std::byte> got(40);
    transport->receive(0, Channel::kTokens, got, transfers[0]);
    progress_until_done(*transport, transfers, group.abort);
    need(got == bytes, "bytes");
  });
}

TEST_CASE("what has left arrives, though its sender does nothing any more") {
  const auto spec = GENERATE(from_range(specs()));
  CAPTURE(name(spec));
  RankThreads group(spec, 2);
  std::atomic<std::size_t> sent{0};
  std::atomic<bool> arrived{false};
  group.run([&](std::unique_ptr<Transport> given) {
    std::vector<std::byte> bytes(4001);
    std::deque<Transfer> transfers;
    const std::unique_ptr<Transport> transport = std::move(given);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    const auto late = [&] { return group.abort || std::chrono::steady_clock::now() > end; };
    if (transport->rank() == 0) {
      // Until one is not done at once, since some buffer is full: of the one before it a part may still be in this process.
      do transport->send(1, Channel::kRows, bytes, transfers.emplace_back());
      while (transfers.back().done && transfers.size() < 10000);
      sent = transfers.size();
      while (!transport->left() && !late()) transport->progress();
      while (!arrived && !late()) std::this_thread::yield();
      need(arrived, "stuck");
    } else {
      while (sent == 0 && !late()) std::this_thread::yield();
      for (std::size_t i = 0; i + 1 < sent; ++i) transport->receive(0, Channel::kRows, bytes, transfers.emplace_back());
      progress_until_done(*transport, transfers, group.abort);
      arrived = true;
    }
  });
}

TEST_CASE("a transport may end with transfers under way") {
  const auto spec = GENERATE(from_range(specs()));
  CAPTURE(name(spec));
  RankThreads group(spec, 2);
  group.run([&](std::unique_ptr<Transport> transport) {
    std::vector<std::byte> sent(3'000'000), got(3'000'000);
    std::deque<Transfer> transfers(2);
    try {
      transport->send(1 - transport->rank(), Channel::kRows, sent, transfers[0]);
      transport->receive(1 - transport->rank(), Channel::kTokens, got, transfers[1]);
      for (int i = 0; i < 5; ++i) transport->progress();
    } catch (const PeerLost&) {
    }
    group.abort = true;
    transport.reset();
  });
}

TEST_CASE("a meeting refuses who is not of the epoch") {
  const auto spec = GENERATE(from_range(specs()));
  CAPTURE(name(spec));
  RankThreads group(spec, 2);
  const auto nothing = [](std::unique_ptr<Transport>) {};
  const auto with = [&](auto change) {
    const auto outcomes = group.outcomes(nothing, [&](Meeting& meeting) {
      if (meeting.rank == 1) change(meeting);
    });
    group.abort = false;
    return outcomes[0] + "|" + outcomes[1];
  };
  CHECK_THAT(with([](Meeting& meeting) { meeting.token = "a token of that group"; }), Catch::Contains("shows another token"));
  CHECK_THAT(with([](Meeting& meeting) { meeting.token.clear(); }), Catch::Contains("shows another token"));
  CHECK_THAT(with([](Meeting& meeting) { meeting.epoch = GroupEpoch{6}; }), Catch::Contains("is in epoch"));
  CHECK_THAT(with([](Meeting& meeting) { meeting.addresses.push_back(meeting.addresses[0]); }), Catch::Contains("of a group of"));
}

TEST_CASE("a meeting is given up when asked to") {
  const auto spec = GENERATE(from_range(specs()));
  CAPTURE(name(spec));
  RankThreads group(spec, 1);
  const auto silent = open_port(group.spec());
  REQUIRE(silent.ok());
  std::thread asker([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    group.abort = true;
  });
  const auto outcomes =
      group.outcomes([](std::unique_ptr<Transport>) {}, [&](Meeting& meeting) { meeting.addresses.push_back(silent.value()->address()); });
  asker.join();
  CHECK_THAT(outcomes[0], Catch::Contains("given up while rank 1 was missing"));
}

TEST_CASE("a meeting with a rank that is gone fails") {
  const auto spec = GENERATE(from_range(specs()));
  CAPTURE(name(spec));
  RankThreads group(spec, 1);
  std::string address;
  {
    const auto gone = open_port(group.spec());
    REQUIRE(gone.ok());
    address = gone.value()->address();
  }
  const auto outcomes = group.outcomes([](std::unique_ptr<Transport>) {}, [&](Meeting& meeting) { meeting.addresses.push_back(address); });
  // Within one process its place in shared memory may be this rank's own by now: then it meets itself, and refuses that.
  CHECK_THAT(outcomes[0], Catch::Contains("rank 1 was gone") || Catch::Contains("rank 0 was here already"));
}

TEST_CASE("an interface that is not there is named") {
  const auto port = open_port({"ucx", "no-such-if", nullptr});
  REQUIRE_FALSE(port.ok());
  CHECK_THAT(port.error().client_text, Catch::Contains("no-such-if"));
  CHECK(port.error().parameter == "interface");
}

TEST_CASE("unknown transports are named, with those there are") {
  const auto port = open_port({"carrier pigeon", "", nullptr});
  REQUIRE_FALSE(port.ok());
  CHECK(port.error().client_text.find("carrier pigeon") != std::string::npos);
  CHECK(port.error().client_text.find("loopback") != std::string::npos);
  CHECK(port.error().parameter == "transport");
  CHECK_FALSE(open_port({"loopback", "", nullptr}).ok());
}
