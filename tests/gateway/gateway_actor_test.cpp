// GatewayActor: sessions are spawned, monitored and cancelled; a dead one ends its request once; directory and drain pass through.
#include "gateway/gateway_actor.h"

#include "messages/caf_types.h"
#include "messages/session_store.capnp.h"
#include "messages/supervision.capnp.h"
#include "runtime/base/metrics.h"
#include "tests/gateway/fake_engine.h"
#include "tests/gateway/running_gateway.h"
#include "tests/gateway/test_client.h"

#include <caf/all.hpp>
#include <catch2/catch.hpp>

#include <atomic>
#include <thread>

using namespace troupe;
using namespace troupe::gateway;
using nlohmann::json;

namespace {

struct Seen {
  std::atomic<int> spawned{0}, cancels{0}, silent_cancels{0}, credits{0}, closed{0}, dropped{0};
};

Message<messages::RequestFinished> finished(std::uint64_t id, messages::FinishReason reason) {
  return Message<messages::RequestFinished>::build([&](messages::RequestFinished::Builder out) {
    out.setRequest(id);
    out.getOutcome().initChoices(1)[0].setReason(reason);
  });
}

// "die": crashes after its first delta; "early": quits without a word; "hang": waits for Cancel; else one delta and the end.
caf::behavior session(caf::event_based_actor* self, Seen* seen) {
  seen->spawned++;
  auto request = std::make_shared<std::uint64_t>(0);
  return {
      [=](const Message<messages::SubmitRequest>& submit) {
        *request = submit->getRequest();
        auto gateway = caf::actor_cast<caf::actor>(self->current_sender());
        auto text = std::string(submit->getInput().getItems()[0].getText().cStr());
        if (text == "early") return self->quit();
        self->send(gateway, Message<messages::RequestAdmitted>::build([&](auto out) { out.setRequest(*request); }));
        self->send(gateway, Message<messages::TokenDelta>::build([&](messages::TokenDelta::Builder out) {
                     out.setRequest(*request);
                     out.initPieces(1)[0].setText("one");
                   }));
        if (text == "die") return self->quit(caf::exit_reason::kill);
        if (text == "hang") return;
        self->send(gateway, finished(*request, messages::FinishReason::STOP));
        self->quit();
      },
      [=](const Message<messages::Cancel>& cancel) {
        (cancel->getSilent() ? seen->silent_cancels : seen->cancels)++;
        auto gateway = caf::actor_cast<caf::actor>(self->current_sender());
        if (!cancel->getSilent()) self->send(gateway, finished(*request, messages::FinishReason::CANCELLED));
        self->quit();
      },
      [=](const Message<messages::GrantCredit>& credit) { seen->credits += static_cast<int>(credit->getDeltas()); },
  };
}

struct Stage {
  base::Metrics metrics;
  Gateway gateway{options(), metrics};
  Seen seen;
  caf::actor_system_config config;
  caf::actor_system system{config};
  std::unique_ptr<GatewayActor> actor;
  std::thread loop;

  static GatewayOptions options() {
    GatewayOptions out;
    out.port = 0;
    out.limits.credit = 2;  // a credit goes back as soon as it can
    return out;
  }
  Stage() {
    auto fake_store = [](caf::event_based_actor* self, Seen* counts) -> caf::behavior {
      return {[counts](const Message<messages::ConnectionClosed>&) { counts->closed++; },
              [self, counts](const Message<messages::DropResponse>& drop) {
                counts->dropped += drop->getId().size() == 5 + 32 ? 1 : 100;
                self->send(caf::actor_cast<caf::actor>(self->current_sender()),
                           Message<messages::ResponseDropped>::build([&](messages::ResponseDropped::Builder dropped) {
                             dropped.setQuery(drop->getQuery());
                             dropped.initIds(1).set(0, drop->getId());
                           }));
              }};
    };
    auto store = system.spawn(fake_store, &seen);
    GatewayLinks links;
    links.spawn_session = [this](const caf::actor&) { return system.spawn(session, &seen); };
    links.session_store = [store] { return store; };
    actor = std::make_unique<GatewayActor>(system, gateway, std::move(links));
    if (!gateway.listen().ok()) throw std::runtime_error("cannot listen");
    caf::anon_send(actor->actor(), FakeEngine::directory());
    loop = std::thread([this] { gateway.run(); });
    eventually([this] { return TestClient(gateway.port()).get("/ready").status == 200; });
  }
  ~Stage() {
    gateway.drain(std::chrono::milliseconds(50));
    loop.join();
    actor.reset();
  }
  std::string body(const std::string& text, bool stream) {
    return json{{"stream", stream}, {"messages", {{{"role", "user"}, {"content", text}}}}}.dump();
  }
};

}  // namespace

TEST_CASE("a request goes through a session and back") {
  Stage stage;
  TestClient client(stage.gateway.port());
  CHECK(client.post("/v1/chat/completions", stage.body("x", false)).json()["choices"][0]["message"]["content"] == "one");
  CHECK(stage.seen.spawned == 1);
}

TEST_CASE("a session that dies ends its request with one error") {
  Stage stage;
  TestClient client(stage.gateway.port());
  auto whole = client.post("/v1/chat/completions", stage.body("early", false));
  CHECK(whole.status == 500);
  CHECK(whole.json()["error"]["code"] == "actor_died");
  auto events = client.post("/v1/chat/completions", stage.body("die", true)).events();
  REQUIRE(events.size() == 4);  // role, delta, error, [DONE]
  CHECK(json::parse(events[2])["error"]["code"] == "actor_died");
  CHECK(client.post("/v1/chat/completions", stage.body("x", false)).status == 200);
}

TEST_CASE("cancels and closed sockets reach their actors") {
  Stage stage;
  TestClient client(stage.gateway.port());
  REQUIRE(client.upgrade("/v1/responses").status == 101);
  client.send_event({{"type", "response.create"}, {"input", "hang"}});
  while (client.read_event()["type"] != "response.output_text.delta") {
  }
  CHECK(eventually([&] { return stage.seen.credits == 1; }));
  client.send_event({{"type", "response.cancel"}});
  json event;
  do event = client.read_event();
  while (event["type"] != "response.incomplete");
  CHECK(stage.seen.cancels == 1);
  client.send_event({{"type", "response.create"}, {"input", "hang"}, {"store", false}});
  while (client.read_event()["type"] != "response.output_text.delta") {
  }
  client.close();
  CHECK(eventually([&] { return stage.seen.silent_cancels == 1 && stage.seen.closed == 1; }));
}

TEST_CASE("a deleted response is dropped by the session store, too; a dead session ends a stored stream for all") {
  Stage stage;
  TestClient client(stage.gateway.port());
  auto id = client.post("/v1/responses", json{{"input", "x"}}.dump()).json()["id"].get<std::string>();
  client.send_request("DELETE", "/v1/responses/" + id);
  CHECK(client.read_answer().status == 200);
  CHECK(eventually([&] { return stage.seen.dropped == 1; }));
  auto events = client.post("/v1/responses", json{{"input", "die"}, {"stream", true}}.dump()).events();
  REQUIRE_FALSE(events.empty());
  auto last = json::parse(events.back());
  CHECK(last["type"] == "response.failed");
  CHECK(last["response"]["error"]["code"] == "actor_died");
  auto kept = client.get("/v1/responses/" + last["response"]["id"].get<std::string>()).json();
  CHECK(kept["status"] == "failed");
  CHECK(kept["output"][0]["content"][0]["text"] == "one");
}

TEST_CASE("DrainNode is answered when the loop has ended") {
  Stage stage;
  std::atomic<int> drained{0};
  caf::scoped_actor self{stage.system};
  self->send(stage.actor->actor(), Message<messages::DrainNode>::build([](messages::DrainNode::Builder out) { out.setGraceMs(50); }));
  self->receive(
      [&](const Message<messages::Drained>& message) {
        drained++;
        CHECK(message->getRole() == messages::Role::GATEWAY);
      },
      caf::after(std::chrono::seconds(10)) >> [] {});
  CHECK(drained == 1);
}
