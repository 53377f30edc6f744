// The bridge from other threads to the loop: order, no loss, and silence after the end. Meant for ThreadSanitizer too.
#include "gateway/server.h"
#include "tests/gateway/running_gateway.h"
#include "tests/gateway/test_client.h"

#include <catch2/catch.hpp>

#include <atomic>

using namespace troupe;
using namespace troupe::gateway;

namespace {

class NoApplication final : public Application {
 public:
  void request(Connection& connection, HttpRequest&&) override { connection.respond(200, "text/plain", "x"); }
  std::string error_body(int, std::string_view) override { return "{}"; }
};

}  // namespace

TEST_CASE("tasks of several threads run once each, in the order of their thread, on the loop") {
  constexpr int kThreads = 4;
  constexpr int kTasks = 5000;
  NoApplication application;
  Server server(Limits{}, application);
  std::vector<int> next(kThreads, 0);  // loop thread
  int out_of_order = 0;
  std::atomic<int> done{0};
  std::thread loop([&] { server.run(); });
  std::vector<std::thread> posters;
  for (int t = 0; t < kThreads; t++)
    posters.emplace_back([&, t] {
      for (int i = 0; i < kTasks; i++)
        server.post([&, t, i] {
          if (next[static_cast<std::size_t>(t)]++ != i) out_of_order++;
          done++;
        });
    });
  for (auto& poster : posters) poster.join();
  CHECK(eventually([&] { return done == kThreads * kTasks; }));
  server.post([&] { server.drain(10); });
  loop.join();
  CHECK(out_of_order == 0);
  server.post([&] { out_of_order++; });  // after the end: dropped
  CHECK(out_of_order == 0);
}

TEST_CASE("answers from many threads while clients come and go") {
  class Threaded final : public EnginePort {
   public:
    explicit Threaded(EngineEvents& events) : events_(events) {}
    ~Threaded() override {
      for (auto& thread : threads_) thread.join();
    }
    void submit(Message<messages::SubmitRequest> request) override {
      threads_.emplace_back([this, id = request->getRequest()] {
        events_.admitted(Message<messages::RequestAdmitted>::build([&](auto out) { out.setRequest(id); }));
        for (unsigned i = 0; i < 20; i++)
          events_.delta(Message<messages::TokenDelta>::build([&](messages::TokenDelta::Builder out) {
            out.setRequest(id);
            out.setNumber(i);
            out.initPieces(1)[0].setText("x");
          }));
        events_.finished(Message<messages::RequestFinished>::build([&](messages::RequestFinished::Builder out) {
          out.setRequest(id);
          out.getOutcome().initChoices(1);
        }));
      });
    }
    void cancel(RequestId, bool) override {}
    void grant_credit(RequestId, std::uint32_t) override {}
    void connection_closed(std::uint64_t) override {}
    void drop_response(const Hash128&, const std::string&) override {}
    void read_block_events(Message<messages::ReadBlockEvents>) override {}
    void ask_store(StoreQuestion) override {}

   private:
    EngineEvents& events_;
    std::vector<std::thread> threads_;  // loop thread
  };
  GatewayOptions options;
  options.port = 0;
  base::Metrics metrics;
  Gateway gateway(options, metrics);
  REQUIRE(gateway.listen().ok());
  Threaded engine(gateway);
  gateway.attach(engine);
  gateway.set_directory(FakeEngine::directory());
  std::thread loop([&] { gateway.run(); });
  std::string body = R"({"stream":true,"messages":[{"role":"user","content":"x"}]})";
  std::atomic<int> whole{0};
  std::vector<std::thread> clients;
  for (int c = 0; c < 4; c++)
    clients.emplace_back([&, c] {
      for (int i = 0; i < 10; i++) {
        TestClient client(gateway.port());
        if (i % 3 == c % 3) {  // leaves at once
          client.send("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.size()) +
                      "\r\n\r\n" + body);
          continue;
        }
        if (client.post("/v1/chat/completions", body).events().size() == 23) whole++;  // role, 20 deltas, end, [DONE]
      }
    });
  for (auto& client : clients) client.join();
  gateway.drain(std::chrono::milliseconds(100));
  loop.join();
  CHECK(whole == 26);  // 40 less those that left: 4 + 3 + 3 + 4
}
