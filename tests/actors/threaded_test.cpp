// The company on real threads: workers, a compute thread, the watchdog's real time. Nothing here asserts on times: only on what is said.
#include "actors/actor_config.h"
#include "actors/company.h"
#include "actors/wire/request.h"
#include "messages/caf_types.h"
#include "tests/actors/fake_engine.h"
#include "tests/actors/test_company.h"
#include "tests/support/tiny_model.h"

#include <caf/all.hpp>
#include <catch2/catch.hpp>

#include <future>
#include <thread>

using namespace troupe;
using namespace troupe::test;

namespace {

struct Answers {
  std::map<std::uint64_t, std::string> text;
  std::size_t finished = 0, failed = 0;
};

/// Collects the answers of `expected` requests, then fulfils the promise.
class Collector final : public caf::event_based_actor {
 public:
  Collector(caf::actor_config& cfg, std::size_t expected, std::promise<Answers>* promise)
      : caf::event_based_actor(cfg), expected_(expected), done_(promise) {
    set_default_handler(caf::drop);
  }
  caf::behavior make_behavior() override {
    return {
        [](const Message<messages::RequestAdmitted>&) {},
        [this](const Message<messages::TokenDelta>& message) {
          for (auto piece : message->getPieces()) answers_.text[message->getRequest()] += piece.getText().cStr();
        },
        [this](const Message<messages::RequestFinished>& message) {
          ++answers_.finished;
          if (message->getOutcome().isError()) ++answers_.failed;
          if (answers_.finished == expected_) done_->set_value(answers_);
        },
    };
  }

 private:
  std::size_t expected_;
  std::promise<Answers>* done_;
  Answers answers_;
};

}  // namespace

TEST_CASE("real threads: throws and stalls that obey the flag, sixteen streams, the same tokens") {
  const auto tokenizer = text::Tokenizer::make(tiny_vocabulary(259)).value();
  FakeEngineOptions engine;
  engine.blocks = 128;
  engine.before_step = [](std::uint64_t step, const std::atomic<bool>& abort) {
    if (step % 25 == 20) throw std::runtime_error("a fault");
    if (step == 33)
      while (!abort) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  actors::CompanySpec spec;
  spec.metrics = std::make_shared<base::Metrics>();
  spec.replica.model_name = "tiny";
  spec.replica.tokenizer = tokenizer;
  spec.replica.chat_template = text::ChatTemplate::compile({}, "<|im_start|>", "<|im_end|>").value();
  spec.replica.scheduler.context_tokens = 2048;
  spec.replica.watchdog = std::chrono::milliseconds(1000);
  spec.replica.make_engine = [engine, steps = std::make_shared<std::uint64_t>(0)] { return std::make_unique<FakeEngine>(engine, steps); };
  std::promise<void> ready;
  spec.on_ready = [&](const exec::ShardFacts&) { ready.set_value(); };

  actors::ActorConfig config(2);
  caf::actor_system system(config);
  std::promise<Answers> done;
  constexpr std::size_t kStreams = 16;
  const auto gateway = system.spawn<Collector>(kStreams, &done);
  {
    actors::Company company(system, std::move(spec));
    company.attach_gateway(gateway);
    REQUIRE(ready.get_future().wait_for(std::chrono::seconds(60)) == std::future_status::ready);
    std::vector<caf::actor> sessions;
    for (std::uint64_t i = 1; i <= kStreams; ++i) {
      auto request = TestCompany::completion(letters(20 + i, static_cast<unsigned>(i)), 60);
      request.request = RequestId{i};
      request.credit = 1000;
      sessions.push_back(company.session_factory()(gateway));  // an actor without a handle ends
      caf::anon_send(sessions.back(), actors::wire::encode(request));
    }
    auto answers = done.get_future();
    REQUIRE(answers.wait_for(std::chrono::seconds(90)) == std::future_status::ready);
    auto got = answers.get();
    CHECK(got.failed == 0);
    for (std::uint64_t i = 1; i <= kStreams; ++i)
      CHECK(got.text[i] == tokenizer->decode(fake_tokens(letters(20 + i, static_cast<unsigned>(i)), 60)));
  }
  caf::anon_send_exit(gateway, caf::exit_reason::user_shutdown);
}
