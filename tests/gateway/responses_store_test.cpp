// Stored responses against a fake engine: read, resumed after a dropped stream, cancelled, deleted; owners; and every bound.
#include "runtime/base/hash.h"
#include "tests/gateway/response_events.h"

#include <catch2/catch.hpp>

using namespace troupe;
using namespace troupe::gateway;
using nlohmann::json;

namespace {

std::string stored(RunningGateway& running, const std::string& input = "words=2", const std::string& headers = {}) {
  TestClient client(running.port());
  auto answer = client.post("/v1/responses", json{{"input", input}}.dump(), headers);
  REQUIRE(answer.status == 200);
  return answer.json()["id"];
}

TestAnswer ask(RunningGateway& running, const std::string& method, const std::string& path, const std::string& headers = {}) {
  TestClient client(running.port());
  client.send_request(method, path, "", headers);
  return client.read_answer();
}

std::string path(const std::string& id, const std::string& rest = {}) { return "/v1/responses/" + id + rest; }

GatewayOptions two_keys() {
  GatewayOptions options;
  options.keys = {{base::hash_text("alpha"), base::hash_text("beta")}, {}};
  return options;
}
const std::string kAlpha = "Authorization: Bearer alpha\r\n";
const std::string kBeta = "Authorization: Bearer beta\r\n";

}  // namespace

TEST_CASE("a stored response outlives its connection; deleted, it is gone for all") {
  RunningGateway running;
  auto id = stored(running);
  auto response = ask(running, "GET", path(id));
  CHECK(response.status == 200);
  CHECK(text_of_response(response.json()) == " w0 w1");
  auto deleted = ask(running, "DELETE", path(id));
  CHECK(deleted.json() == json{{"id", id}, {"object", "response"}, {"deleted", true}, {"responses", 1}});
  CHECK(running.engine.dropped() == std::vector<std::string>{id});  // nobody can continue it either
  for (const char* method : {"GET", "DELETE"}) {
    auto gone = ask(running, method, path(id));
    CHECK(gone.status == 404);
    CHECK(gone.json()["error"]["code"] == "response_not_found");
  }
  CHECK(ask(running, "POST", path(id, "/cancel")).status == 404);
  CHECK(ask(running, "GET", path(id, "/input_items")).status == 404);
}

TEST_CASE("what is not to be stored is not found") {
  RunningGateway running;
  TestClient client(running.port());
  auto id = client.post("/v1/responses", json{{"input", "x"}, {"store", false}}.dump()).json()["id"].get<std::string>();
  CHECK(client.get(path(id)).status == 404);
  ResponseClient stream(running);
  stream.create("x", {{"store", false}});
  id = stream.rest().back()["response"]["id"];
  CHECK(client.get(path(id)).status == 404);
  CHECK(running.metrics.prometheus_text().find("troupe:http_stored_responses 0") != std::string::npos);
}

TEST_CASE("R76: another key's response is not found, in the words for an id that never was") {
  RunningGateway running(two_keys());
  auto id = stored(running, "words=2", kAlpha);
  ResponseClient live(running);
  REQUIRE(live.create("hang", json::object(), kAlpha).status == 200);
  auto live_id = live.next()["response"]["id"].get<std::string>();
  auto words = [](TestAnswer answer, const std::string& of) {
    CHECK(answer.status == 404);
    auto text = answer.body;
    REQUIRE(text.find(of) != std::string::npos);
    text.replace(text.find(of), of.size(), "ID");
    return text;
  };
  const std::string made_up = "resp_0123456789abcdef0123456789abcdef";
  for (const auto& [method, rest] : std::vector<std::pair<std::string, std::string>>{
           {"GET", ""}, {"GET", "?stream=true"}, {"DELETE", ""}, {"POST", "/cancel"}, {"GET", "/input_items"}}) {
    auto expected = words(ask(running, method, path(made_up, rest), kAlpha), made_up);
    for (const auto& foreign : {id, live_id}) CHECK(words(ask(running, method, path(foreign, rest), kBeta), foreign) == expected);
  }
  CHECK(running.engine.cancels().empty());
  CHECK(ask(running, "GET", path(id), kAlpha).status == 200);
  CHECK(ask(running, "GET", path(id)).status == 401);
  // The engine judges previous_response_id; it is told whose request it is.
  ask(running, "GET", "/v1/models", kBeta);
  TestClient(running.port()).post("/v1/responses", json{{"input", "x"}, {"previous_response_id", id}}.dump(), kBeta);
  TestClient socket(running.port());
  REQUIRE(socket.upgrade("/v1/responses", kBeta).status == 101);
  socket.send_event({{"type", "response.create"}, {"input", "x"}, {"previous_response_id", id}});
  socket.read_event();
  auto submitted = running.engine.submitted();
  REQUIRE(submitted.size() == 4);
  for (std::size_t i : {2U, 3U}) {
    CHECK(submitted[i]->getPreviousResponseId() == id);
    CHECK(submitted[i]->getOwner().getHigh() != submitted[0]->getOwner().getHigh());
    CHECK(submitted[i]->getOwner().getHigh() == submitted[2]->getOwner().getHigh());
  }
}

TEST_CASE("ids that are no ids") {
  RunningGateway running;
  CHECK(ask(running, "GET", path("x")).status == 404);
  CHECK(ask(running, "GET", path(std::string(4000, 'x'))).body.size() < 600);
  CHECK(ask(running, "GET", path("%2e%2e%00")).status == 404);
  CHECK(ask(running, "GET", "/v1/responses/").status == 404);
  CHECK(ask(running, "GET", path("a", "/b")).status == 404);
  CHECK(ask(running, "GET", path("a", "/input_items/")).status == 404);
  auto put = ask(running, "PUT", path("a"));
  CHECK(put.status == 405);
  CHECK(put.headers["allow"] == "GET, HEAD, DELETE");
}

TEST_CASE("input items, in pages") {
  RunningGateway running;
  json items = json::array();
  for (int i = 0; i < 25; i++) items.push_back({{"role", "user"}, {"content", "words=1"}});
  items[3]["id"] = "msg_mine";
  items[4]["content"] = json::array({{{"type", "input_text"}, {"text", "part"}}});
  TestClient client(running.port());
  auto id = client.post("/v1/responses", json{{"input", items}}.dump()).json()["id"].get<std::string>();
  auto first = client.get(path(id, "/input_items")).json();
  CHECK(first["object"] == "list");
  CHECK(first["data"].size() == 20);
  CHECK(first["has_more"] == true);
  auto second = client.get(path(id, "/input_items?after=" + first["last_id"].get<std::string>())).json();
  CHECK(second["data"].size() == 5);
  CHECK(second["has_more"] == false);
  CHECK(second["data"][1]["id"] == "msg_mine");  // newest first
  auto ascending = client.get(path(id, "/input_items?order=asc&limit=5")).json();
  CHECK(ascending["data"][3]["id"] == "msg_mine");
  CHECK(ascending["data"][4]["content"][0]["text"] == "part");
  CHECK(ascending["data"][0]["content"][0] == json{{"type", "input_text"}, {"text", "words=1"}});
  CHECK(ascending["first_id"] == ascending["data"][0]["id"]);
  for (const char* bad : {"?limit=0", "?limit=101", "?limit=x", "?order=up", "?after=nobody"})
    CHECK(client.get(path(id, std::string("/input_items") + bad)).status == 400);
}

TEST_CASE("a dropped stream goes on and is resumed where it stopped, live and after its end") {
  RunningGateway running;
  auto dropped = std::make_unique<ResponseClient>(running);
  REQUIRE(dropped->create("hang").status == 200);
  auto id = dropped->next()["response"]["id"].get<std::string>();
  auto request = last_request(running);
  give_text(running, request, "one ");
  Events before{dropped->next(), dropped->next(), dropped->next(), dropped->next()};
  CHECK(before.back()["delta"] == "one ");
  dropped.reset();
  give_text(running, request, "two ");
  CHECK(ask(running, "GET", path(id)).json()["status"] == "in_progress");
  ResponseClient resumed(running);
  REQUIRE(resumed.resume(id, 4).status == 200);
  auto event = resumed.next();
  CHECK(event["sequence_number"] == 5);
  CHECK(event["delta"] == "two ");
  give_text(running, request, "three");
  CHECK(resumed.next()["delta"] == "three");
  give_end(running, request);
  auto end = resumed.rest();
  CHECK(end.back()["type"] == "response.completed");
  CHECK(text_of_response(end.back()["response"]) == "one two three");
  CHECK(running.engine.silent_cancels().empty());
  // After its end: all of it, a part of it, nothing of it.
  ResponseClient again(running);
  REQUIRE(again.resume(id).status == 200);
  auto all = again.rest();
  for (std::size_t i = 0; i < all.size(); i++) CHECK(all[i]["sequence_number"] == i);
  CHECK(joined_text(all) == "one two three");
  auto last = all.back()["sequence_number"].get<std::int64_t>();
  REQUIRE(again.resume(id, last - 1).status == 200);
  CHECK(again.rest().size() == 1);
  REQUIRE(again.resume(id, last).status == 200);
  CHECK(again.rest().empty());
}

TEST_CASE("two readers of one stream see the same, and either may go") {
  RunningGateway running;
  auto first = std::make_unique<ResponseClient>(running);
  REQUIRE(first->create("hang").status == 200);
  auto id = first->next()["response"]["id"].get<std::string>();
  auto request = last_request(running);
  ResponseClient second(running), third(running);
  REQUIRE(second.resume(id).status == 200);
  REQUIRE(third.resume(id, 0).status == 200);
  give_text(running, request, "a");
  CHECK(second.next()["type"] == "response.created");
  CHECK(third.next()["type"] == "response.in_progress");
  first.reset();
  give_text(running, request, "b");
  give_end(running, request);
  auto seen = second.rest(), too = third.rest();
  REQUIRE(seen.size() == too.size() + 1);
  for (std::size_t i = 0; i < too.size(); i++) CHECK(seen[i + 1] == too[i]);
  CHECK(joined_text(seen) == "ab");
}

TEST_CASE("what cannot be resumed is refused and says why") {
  GatewayOptions options;
  options.limits.response_readers = 2;
  options.limits.resume_bytes = 4096;
  RunningGateway running(options);
  auto refused = [&](const std::string& id, const std::string& query) {
    auto answer = ask(running, "GET", path(id, query));
    return answer.json()["error"]["param"].get<std::string>() + " " + std::to_string(answer.status);
  };
  auto whole = stored(running);
  CHECK(refused(whole, "?stream=true") == "stream 400");
  CHECK(refused(whole, "?stream=maybe") == "stream 400");
  CHECK(refused(whole, "?starting_after=1") == "starting_after 400");
  CHECK(refused(whole, "?stream=true&starting_after=-1") == "starting_after 400");
  ResponseClient client(running);
  REQUIRE(client.create("hang").status == 200);
  auto id = client.next()["response"]["id"].get<std::string>();
  CHECK(refused(id, "?stream=true&starting_after=99") == "starting_after 400");
  ResponseClient other(running);
  REQUIRE(other.resume(id).status == 200);
  CHECK(refused(id, "?stream=true") == "stream 429");
  for (int i = 0; i < 100; i++) give_text(running, last_request(running), "word ");
  give_end(running, last_request(running));
  client.rest();
  other.rest();
  auto dropped = ask(running, "GET", path(id, "?stream=true"));
  CHECK(dropped.status == 400);
  CHECK(dropped.json()["error"]["message"].get<std::string>().find("no longer kept") != std::string::npos);
  CHECK(ask(running, "GET", path(id)).status == 200);
}

TEST_CASE("cancel ends a live response for its reader, and is repeated without harm") {
  RunningGateway running;
  ResponseClient client(running);
  REQUIRE(client.create("hang").status == 200);
  auto id = client.next()["response"]["id"].get<std::string>();
  give_text(running, last_request(running), "so far");
  auto cancelled = ask(running, "POST", path(id, "/cancel"));
  CHECK(cancelled.status == 200);
  CHECK(cancelled.json()["status"] == "cancelled");
  CHECK(text_of_response(cancelled.json()) == "so far");
  auto events = client.rest();
  CHECK(events.back()["type"] == "response.incomplete");
  CHECK(events.back()["response"] == cancelled.json());
  CHECK(ask(running, "POST", path(id, "/cancel")).json() == cancelled.json());
  CHECK(running.engine.cancels().size() == 1);
  auto done = stored(running);
  CHECK(ask(running, "POST", path(done, "/cancel")).json()["status"] == "completed");
}

TEST_CASE("cancel races with the end: whichever wins, everybody hears one end") {
  RunningGateway running;
  for (int round = 0; round < 20; round++) {
    ResponseClient client(running);
    REQUIRE(client.create("hang").status == 200);
    auto id = client.next()["response"]["id"].get<std::string>();
    TestClient canceller(running.port());
    canceller.send_request("POST", path(id, "/cancel"));
    give_end(running, last_request(running));
    auto status = canceller.read_answer().json()["status"];
    auto events = client.rest();
    CHECK(events.back()["response"]["status"] == status);
    CHECK(std::count_if(events.begin(), events.end(), terminal) == 1);
  }
}

TEST_CASE("a running response that is deleted ends, is not found at once, and leaves nothing behind") {
  RunningGateway running;
  auto client = std::make_unique<ResponseClient>(running);
  REQUIRE(client->create("hang").status == 200);
  auto id = client->next()["response"]["id"].get<std::string>();
  CHECK(ask(running, "DELETE", path(id)).status == 200);
  CHECK(ask(running, "GET", path(id)).status == 404);
  CHECK(client->rest().back()["response"]["status"] == "cancelled");
  CHECK(running.engine.cancels().size() == 1);
  CHECK(eventually([&] { return running.engine.dropped() == std::vector<std::string>{id}; }));
  // The same without a reader.
  client = std::make_unique<ResponseClient>(running);
  REQUIRE(client->create("hang").status == 200);
  id = client->next()["response"]["id"].get<std::string>();
  client.reset();
  CHECK(ask(running, "DELETE", path(id)).status == 200);
  CHECK(eventually([&] { return running.engine.dropped().size() == 2; }));
  CHECK(running.metrics.prometheus_text().find("troupe:http_stored_response_bytes 0") != std::string::npos);
}

TEST_CASE("a stored stream that nobody reads goes on to its end") {
  RunningGateway running;
  std::string id;
  {
    ResponseClient client(running);
    REQUIRE(client.create("words=5000").status == 200);
    id = client.next()["response"]["id"];
  }
  CHECK(eventually([&] { return ask(running, "GET", path(id)).json()["status"] == "completed"; }));
  CHECK(ask(running, "GET", path(id)).json()["usage"]["output_tokens"] == 5000);
  CHECK(running.engine.silent_cancels().empty());
}

TEST_CASE("over a WebSocket, too: stored lanes go on and are resumed over HTTP") {
  RunningGateway running;
  std::string id;
  {
    TestClient socket(running.port());
    REQUIRE(socket.upgrade("/v1/responses").status == 101);
    socket.send_event({{"type", "response.create"}, {"input", "hang"}, {"stream_id", "lane"}});
    id = socket.read_event()["response"]["id"];
  }
  CHECK(eventually([&] { return running.engine.closed().size() == 1; }));
  give_text(running, last_request(running), "later");
  give_end(running, last_request(running));
  ResponseClient resumed(running);
  REQUIRE(resumed.resume(id, 0).status == 200);
  auto events = resumed.rest();
  CHECK(joined_text(events) == "later");
  CHECK_FALSE(events.back().contains("stream_id"));
}

TEST_CASE("a stream without a reader is cancelled in the end, and what it has is kept") {
  GatewayOptions options;
  options.limits.orphan_ms = 300;
  RunningGateway running(options);
  std::string id;
  {
    ResponseClient client(running);
    REQUIRE(client.create("hang").status == 200);
    id = client.next()["response"]["id"];
  }
  CHECK(eventually([&] { return running.engine.cancels().size() >= 1; }));  // though there is no connection at all
  TestClient other(running.port());
  CHECK(eventually([&] { return other.get(path(id)).json()["status"] == "cancelled"; }));
}

TEST_CASE("times: events go first, then the response") {
  GatewayOptions options;
  options.limits.resume_ms = 200;
  options.limits.response_ttl_ms = 1500;
  RunningGateway running(options);
  ResponseClient client(running);
  REQUIRE(client.create("words=1").status == 200);
  auto id = client.rest().back()["response"]["id"].get<std::string>();
  TestClient other(running.port());
  CHECK(eventually([&] { return other.get(path(id, "?stream=true")).status == 400; }));
  CHECK(other.get(path(id)).status == 200);
  CHECK(eventually([&] { return text_of_response(other.get(path(id)).json()) == "as it was"; }));  // the store's to forget
  CHECK(eventually([&] { return running.metrics.prometheus_text().find("troupe:http_stored_responses 0") != std::string::npos; }));
}

TEST_CASE("memory of stored responses is bounded: the longest unused goes, and only the store knows it") {
  GatewayOptions options;
  options.limits.response_bytes = 40'000;
  RunningGateway running(options);
  std::vector<std::string> ids;
  auto kept = stored(running);
  for (int i = 0; i < 40; i++) {
    ids.push_back(stored(running));
    REQUIRE(ask(running, "GET", path(kept)).status == 200);  // in use
  }
  CHECK(text_of_response(ask(running, "GET", path(ids.front())).json()) == "as it was");
  CHECK(text_of_response(ask(running, "GET", path(ids.back())).json()) == " w0 w1");
  CHECK(running.engine.dropped().empty());
  auto metrics = running.metrics.prometheus_text();
  auto at = metrics.find("\ntroupe:http_stored_response_bytes ");
  REQUIRE(at != std::string::npos);
  CHECK(std::stod(metrics.substr(at + 35)) <= 40'000);
}

TEST_CASE("R80: readers that stop hold a bounded number of bytes, on both transports, and hinder nobody") {
  GatewayOptions options;
  options.limits.stall_ms = 60'000;
  RunningGateway running(options);
  std::vector<std::unique_ptr<ResponseClient>> streams;
  std::vector<std::unique_ptr<TestClient>> sockets;
  for (int i = 0; i < 10; i++) {
    streams.push_back(std::make_unique<ResponseClient>(running));
    streams.back()->create("words=100000000", {{"store", i % 2 == 0}});
    sockets.push_back(std::make_unique<TestClient>(running.port()));
    REQUIRE(sockets.back()->upgrade("/v1/responses").status == 101);
    sockets.back()->send_event({{"type", "response.create"}, {"input", "words=100000000"}, {"store", i % 2 == 0}});
  }
  // The engine's credits are what bounds them: they stop coming.
  std::uint64_t grants = 0;
  CHECK(eventually([&] {
    auto now = running.engine.grants();
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    grants = running.engine.grants();
    return now == grants && running.engine.submitted().size() == 20;
  }));
  CHECK(text_of_response(ask(running, "GET", path(stored(running))).json()) == " w0 w1");
  auto metrics = running.metrics.prometheus_text();
  auto at = metrics.find("\ntroupe:http_stored_response_bytes ");
  CHECK(std::stod(metrics.substr(at + 35)) < 12 * (1.2e6 + 64e3));  // resume_bytes each, and little more
  CHECK(running.engine.silent_cancels().empty());
}

TEST_CASE("R80: a reader that stops is cut after the documented time; a stored response goes on without it") {
  GatewayOptions options;
  options.limits.stall_ms = 300;
  RunningGateway running(options);
  ResponseClient stored_stream(running), stream(running);
  REQUIRE(stored_stream.create("words=60000").status == 200);
  auto id = stored_stream.next()["response"]["id"].get<std::string>();
  REQUIRE(stream.create("words=100000000", {{"store", false}}).status == 200);
  CHECK(eventually([&] { return running.engine.silent_cancels().size() == 1; }));
  CHECK(eventually([&] { return ask(running, "GET", path(id)).json()["status"] == "completed"; }));
}

TEST_CASE("R78: a pong goes between data frames, however much is queued for a slow reader") {
  RunningGateway running;
  TestClient client(running.port(), "127.0.0.1", 16 << 10);
  REQUIRE(client.upgrade("/v1/responses").status == 101);
  client.send_event({{"type", "response.create"}, {"input", "words=100000"}, {"stream_id", "long"}, {"store", false}});
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // all buffers on the way are full
  for (int round = 0; round < 5; round++) {
    client.send_frame(9, "are you there " + std::to_string(round));
    std::size_t bytes = 0;
    for (;;) {
      auto [opcode, payload] = client.read_frame();
      if (opcode == 10) {
        CHECK(payload == "are you there " + std::to_string(round));
        break;
      }
      bytes += payload.size();
      REQUIRE(bytes < (8U << 20));
    }
    // What stands before it is what sockets hold, not the stream: at 200 KiB/s it comes within a second.
    INFO(bytes);
    CHECK(bytes < 200 << 10);
  }
  // A short lane is not held up by the long one either.
  client.send_event({{"type", "response.create"}, {"input", "words=1"}, {"stream_id", "short"}, {"store", false}});
  std::size_t bytes = 0;
  for (json event = json::object(); event.value("stream_id", "") != "short" || event["type"] != "response.completed";) {
    auto [opcode, payload] = client.read_frame();
    bytes += payload.size();
    REQUIRE(bytes < (8U << 20));
    event = json::parse(payload);
  }
  CHECK(bytes < 400 << 10);
}

TEST_CASE("R78: a reader that is slow and says nothing is no silent one, as long as it takes its output") {
  GatewayOptions options;
  options.limits.ws_ping_ms = 250;
  RunningGateway running(options);
  TestClient client(running.port(), "127.0.0.1", 16 << 10);
  REQUIRE(client.upgrade("/v1/responses").status == 101);
  client.send_event({{"type", "response.create"}, {"input", "words=100000"}, {"store", false}});
  const auto start = std::chrono::steady_clock::now();
  std::size_t bytes = 0;
  while (std::chrono::steady_clock::now() - start < std::chrono::milliseconds(2000)) {  // four times what cuts a silent one
    for (const std::size_t enough = bytes + (32 << 10); bytes < enough;) bytes += client.read_frame().second.size();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  CHECK(running.engine.silent_cancels().empty());
}

TEST_CASE("R78: any byte received counts as life, but silence is cut") {
  GatewayOptions options;
  options.limits.ws_ping_ms = 250;
  RunningGateway running(options);
  TestClient client(running.port()), silent(running.port());
  for (auto* each : {&client, &silent}) REQUIRE(each->upgrade("/v1/responses").status == 101);
  // A frame that comes byte by byte over five times what cuts a silent one, and never a pong.
  client.send(std::string("\x89\xfd\0\0\0\0", 6));  // a ping of 125 bytes behind a mask of zeros
  for (int byte = 0; byte < 125; byte++) {
    client.send("x");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  int opcode = 9;
  std::string payload;
  while (opcode == 9) std::tie(opcode, payload) = client.read_frame();
  CHECK(opcode == 10);
  CHECK(payload == std::string(125, 'x'));
  CHECK(silent.read_frame().first == 9);
  CHECK(silent.closed());
}

TEST_CASE("R78: a pong counts as life") {
  GatewayOptions options;
  options.limits.ws_ping_ms = 300;
  RunningGateway running(options);
  TestClient client(running.port());
  REQUIRE(client.upgrade("/v1/responses").status == 101);
  client.send_event({{"type", "response.create"}, {"input", "hang"}});
  client.read_event();
  client.read_event();
  for (int pings = 0; pings < 4; pings++) {
    auto [opcode, payload] = client.read_frame();
    REQUIRE(opcode == 9);
    client.send_frame(10, payload);
  }
  CHECK(running.engine.cancels().empty());
}
