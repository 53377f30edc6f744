// GET /v1/cache/events with a cache that says what the test wants: ids, snapshots, where a client goes on, slow readers, bounds.
#include "gateway/cache_events.h"

#include "runtime/base/hash.h"
#include "tests/gateway/running_gateway.h"
#include "tests/gateway/test_client.h"

#include <catch2/catch.hpp>

#include <memory>
#include <vector>

using namespace troupe;
using namespace troupe::gateway;

namespace {

const std::string kUrl = "/v1/cache/events";
constexpr Incarnation kTier = 0xab;

GatewayOptions with_admin() {
  GatewayOptions options;
  options.keys = {{}, {base::hash_text("root")}};
  return options;
}

void open(TestClient& client, const std::string& query = {}, const std::string& headers = {}) {
  client.send("GET " + kUrl + query + " HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer root\r\n" + headers + "\r\n");
}

struct Page {
  std::uint64_t query = 0, first = 0;
  unsigned events = 0;
  bool snapshot = false, cleared = false, more = false, tokens = false;
  Incarnation tier = kTier;
};
Message<messages::BlockEvents> page_of(const Page& page) {
  return Message<messages::BlockEvents>::build([&](messages::BlockEvents::Builder out) {
    out.setQuery(page.query);
    out.setIncarnation(page.tier);
    out.setFirst(page.first);
    out.setSnapshot(page.snapshot);
    out.setCleared(page.cleared);
    out.setMore(page.more);
    auto changes = out.initChanges(page.events);
    for (unsigned i = 0; i < page.events; i++) {
      changes[i].setKeyHigh(i + 1);
      changes[i].setTier(messages::Tier::HOST);
      changes[i].setStored(true);
    }
    if (!page.tokens || page.events == 0) return;
    auto tokens = out.initTokens(page.events);
    tokens.init(0, 2).set(1, 7);
  });
}

const std::string kKey = "0000000000000001" + std::string(16, '0');

}  // namespace

TEST_CASE("a client of the cache's events gets a snapshot, then what comes behind it") {
  RunningGateway running(with_admin());
  running.engine.answer_event_reads([&](messages::ReadBlockEvents::Reader read) {
    const auto query = read.getQuery();
    if (read.getIncarnation() == 0) {
      running.gateway.block_events(page_of({query + 100, 1, 5}));  // nobody's
      running.gateway.block_events(page_of({query, 9, 1, true, true, true}));
      running.gateway.block_events(page_of({query, 9, 1, true, false, false}));
    } else if (read.getAfter() == 9) {
      running.gateway.block_events(page_of({query, 10, 2, false, false, false, read.getTokens()}));
    }
  });
  TestClient client(running.port());
  open(client, "?tokens=true");
  CHECK(client.read_head().headers["content-type"] == "text/event-stream");
  client.read_until("\"number\":11");
  client.close();
  CHECK(eventually([&] { return running.engine.event_reads().size() == 3; }));
  const auto reads = running.engine.event_reads();
  CHECK((reads[2]->getIncarnation() == kTier && reads[2]->getAfter() == 11 && reads[2]->getTokens()));

  TestClient again(running.port());
  open(again, "?after=00000000000000ab-9");
  const auto head = again.read_head();
  const auto first = nlohmann::json::parse(*again.read_stream_event());
  CHECK(first == nlohmann::json::parse(R"({"number":10,"type":"stored","tier":"host","key":")" + kKey + R"(","parent":null})"));
  CHECK(nlohmann::json::parse(*again.read_stream_event())["number"] == 11);
}

TEST_CASE("only the end of a snapshot has an id; the header of a browser that comes back wins over the URL") {
  RunningGateway running(with_admin());
  std::uint64_t snapshots = 0;
  running.engine.answer_event_reads([&](messages::ReadBlockEvents::Reader read) {
    if (snapshots++ > 0) return;
    running.gateway.block_events(page_of({read.getQuery(), 9, 2, true, true, true}));
    running.gateway.block_events(page_of({read.getQuery(), 9, 2, true, false, false, true}));
  });
  TestClient client(running.port());
  open(client, "?after=00000000000000ab-1&tokens=true", "Last-Event-ID: cd-5\r\nConnection: close\r\n");
  CHECK(eventually([&] { return running.engine.event_reads().size() == 2; }));
  CHECK((running.engine.event_reads()[0]->getIncarnation() == 0xcd && running.engine.event_reads()[0]->getAfter() == 5));
  running.gateway.drain(std::chrono::milliseconds(5000));  // ends what would never end, long before its grace
  const auto body = client.read_answer().body;
  const auto id = body.find("id: ");
  CHECK(body.substr(id, 26) == "id: 00000000000000ab-9\ndat");
  CHECK(body.find("id: ", id + 1) == body.npos);
  CHECK(body.find("\"cleared\",\"tier\":null}") < id);
  CHECK(body.find("\"tokens\":[0,7]") < id);
  CHECK(body.find("\"tokens\":null") > id);
}

TEST_CASE("what a client of the cache's events can do wrong") {
  RunningGateway running(with_admin());
  for (const char* bad : {"7", "x-1", "ab-", "ab-x", "ab-1x", "-1", "ab--1", "11112222333344445-1", "ab-99999999999999999999"}) {
    INFO(bad);
    TestClient client(running.port());
    open(client, std::string("?after=") + bad);
    const auto answer = client.read_answer();
    CHECK(answer.status == 400);
    CHECK(answer.json()["error"]["param"] == "after");
    TestClient other(running.port());
    open(other, "", "Last-Event-ID: " + std::string(bad) + "\r\n");
    CHECK(other.read_answer().status == 400);
  }
  std::vector<std::unique_ptr<TestClient>> clients;
  for (std::size_t i = 0; i < Limits{}.event_readers; i++) {
    open(*clients.emplace_back(std::make_unique<TestClient>(running.port())));
    CHECK(clients.back()->read_head().status == 200);
  }
  TestClient late(running.port());
  open(late);
  CHECK(late.read_answer().status == 429);
  clients.pop_back();
  CHECK(eventually([&] {
    TestClient next(running.port());
    open(next);
    return next.read_head().status == 200;
  }));
}

TEST_CASE("a cache that does not answer is asked again; a reader that does not read is asked nothing for") {
  RunningGateway running(with_admin());
  TestClient client(running.port());
  open(client);
  CHECK(eventually([&] { return running.engine.event_reads().size() == 2; }));
  CHECK(running.engine.event_reads()[0]->getReader() == running.engine.event_reads()[1]->getReader());

  running.engine.answer_event_reads([&](messages::ReadBlockEvents::Reader read) {
    running.gateway.block_events(page_of({read.getQuery(), read.getAfter() + 1, 1000}));
  });
  std::size_t before = 0;
  CHECK(eventually([&] {  // until all buffers are full
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    return std::exchange(before, running.engine.event_reads().size()) == running.engine.event_reads().size() && before > 3;
  }));
  client.read_until("\"number\":60000,");  // it goes on once it is read
  CHECK(running.engine.event_reads().size() > before);
}
