// gateway_bench: how many connections and token events the gateway carries. The real gateway, gateway actor and one RequestSession a
// request; router and scheduler are played by two actors that make tokens as fast as the client takes them. The client is a process of
// its own (forked before any thread), which opens idle WebSockets and active streams, and reports. Not a test: it asserts nothing.
//   gateway_bench [--idle N] [--streams N] [--seconds N] [--tokens-per-message N] [--tls]
#include "actors/actor_config.h"
#include "actors/request_session_actor.h"
#include "actors/wire/admission.h"
#include "gateway/gateway_actor.h"
#include "gateway/openssl_tls.h"
#include "messages/caf_types.h"
#include "tests/gateway/bench_client.h"
#include "tests/gateway/test_certificate.h"
#include "tests/support/tiny_model.h"

#include <caf/all.hpp>

#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <unordered_map>

namespace {

using namespace troupe;
using namespace troupe::gateway;
using actors::Role;

constexpr std::uint64_t kWindowMessages = 32;  // on their way for each stream, in the fake scheduler's messages
constexpr std::uint32_t kContext = 100'000'000;
constexpr TokenId kToken = static_cast<TokenId>(3 + kBenchMark);  // the tiny vocabulary: three control tokens, then the bytes

using StepAtom = caf::atom_constant<caf::atom("step")>;

/// Chooses the one replica for everybody.
caf::behavior router(caf::event_based_actor* self, std::shared_ptr<actors::ActorRegistry> registry) {
  return {[=](const Message<messages::ChooseReplica>& choose) {
    self->send(caf::actor_cast<caf::actor>(self->current_sender()),
               Message<messages::ReplicaChosen>::build([&](messages::ReplicaChosen::Builder chosen) {
                 chosen.setRequest(choose->getRequest());
                 registry->write_address(chosen.initScheduler(), Role::SCHEDULER, 0);
               }));
  }};
}

/// Gives every sequence `per_message` tokens a step, and steps while the client keeps up.
class FakeScheduler final : public caf::event_based_actor {
 public:
  FakeScheduler(caf::actor_config& config, const BenchShared* shared, std::uint32_t per_message)
      : caf::event_based_actor(config), shared_(shared), per_message_(per_message) {}

  caf::behavior make_behavior() override {
    set_default_handler(caf::drop);
    return {
        [this](const Message<messages::AdmitSequence>& message) {
          const auto admit = actors::wire::decode(*message);
          auto session = caf::actor_cast<caf::actor>(current_sender());
          sequences_[admit.request.value] = {session, 0, admit.max_tokens};
          send(session, Message<messages::SequenceAdmitted>::build(
                            [&](messages::SequenceAdmitted::Builder admitted) { admitted.setRequest(admit.request.value); }));
          if (!std::exchange(stepping_, true)) send(this, StepAtom::value);
        },
        [this](const Message<messages::AbortSequence>& message) { sequences_.erase(message->getRequest()); },
        [this](StepAtom) { step(); },
    };
  }

 private:
  struct Sequence {
    caf::actor session;
    std::uint32_t made = 0, wanted = 0;
  };

  void step() {
    if (sequences_.empty()) {
      stepping_ = false;
      return;
    }
    const auto window = kWindowMessages * per_message_ * sequences_.size();
    if (made_ - std::min(made_, shared_->tokens.load()) > window) {
      delayed_send(this, std::chrono::microseconds(200), StepAtom::value);
      return;
    }
    for (auto entry = sequences_.begin(); entry != sequences_.end();) {
      auto& [request, sequence] = *entry;
      schedule::TokensGenerated tokens;
      tokens.request = RequestId{request};
      tokens.first = sequence.made;
      tokens.tokens.assign(std::min(per_message_, sequence.wanted - sequence.made), kToken);
      sequence.made += static_cast<std::uint32_t>(tokens.tokens.size());
      made_ += tokens.tokens.size();
      const bool last = sequence.made == sequence.wanted;
      if (last) tokens.finish = schedule::Finish::kLength;
      send(sequence.session, actors::wire::encode(tokens));
      entry = last ? sequences_.erase(entry) : std::next(entry);
    }
    send(this, StepAtom::value);
  }

  const BenchShared* shared_;
  std::uint32_t per_message_;
  std::unordered_map<std::uint64_t, Sequence> sequences_;
  std::uint64_t made_ = 0;
  bool stepping_ = false;
};

Message<messages::DirectoryChanged> directory() {
  return Message<messages::DirectoryChanged>::build([](messages::DirectoryChanged::Builder changed) {
    auto model = changed.initModels(1)[0];
    model.setName("tiny");
    model.setContextTokens(kContext);
    model.setReplicasServing(1);
    model.initKeyDomains(1);
  });
}

void serve(BenchShared* shared, const BenchOptions& options) {
  base::Metrics gateway_metrics;
  GatewayOptions gateway_options;
  gateway_options.port = 0;
  gateway_options.limits.connections_per_ip = 10'000;
  gateway_options.limits.drain_cut_ms = 100;
  TestCertificate certificate;
  if (options.tls) gateway_options.tls = load_tls(certificate.certificate(), certificate.key()).value();
  Gateway gateway(gateway_options, gateway_metrics);
  if (!gateway.listen().ok()) std::exit(1);

  const auto context = std::make_shared<actors::ActorContext>();
  context->registry = std::make_shared<actors::ActorRegistry>(NodeId{0}, Incarnation{1});
  context->metrics = std::make_shared<base::Metrics>();
  auto dependencies = std::make_shared<actors::RequestSessionDependencies>();
  dependencies->context = context;
  dependencies->tokenizer = text::Tokenizer::make(test::tiny_vocabulary(259)).value();
  dependencies->chat_template = text::ChatTemplate::compile("", "<|im_start|>", "<|im_end|>").value();
  dependencies->metrics = std::make_shared<actors::SessionMetrics>(context->metrics);
  dependencies->context_tokens = kContext;
  actors::ActorConfig config(actors::default_workers(std::thread::hardware_concurrency()));
  caf::actor_system system(config);
  context->registry->put(Role::ROUTER, 0, system.spawn(router, context->registry));
  context->registry->put(Role::SCHEDULER, 0, system.spawn<FakeScheduler>(shared, options.tokens_per_message));
  GatewayLinks links;
  links.spawn_session = [&](const caf::actor& actor) { return actors::spawn_request_session(system, dependencies, actor); };
  {
    GatewayActor actor(system, gateway, std::move(links));
    gateway.set_directory(directory());
    std::thread loop([&] { gateway.run(); });
    shared->port = gateway.port();
    while (!shared->done) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    gateway.drain(std::chrono::milliseconds(10));
    loop.join();
  }
  for (auto role : {Role::ROUTER, Role::SCHEDULER}) caf::anon_send_exit(context->registry->find(role, 0), caf::exit_reason::user_shutdown);
  context->registry->clear();
}

BenchOptions parse(int argc, char** argv) {
  BenchOptions options;
  for (int i = 1; i < argc; i++) {
    const std::string name = argv[i];
    const auto number = [&] { return static_cast<unsigned>(std::atoi(i + 1 < argc ? argv[++i] : "0")); };
    if (name == "--idle")
      options.idle = number();
    else if (name == "--streams")
      options.streams = number();
    else if (name == "--seconds")
      options.seconds = number();
    else if (name == "--tokens-per-message")
      options.tokens_per_message = std::max(1U, number());
    else if (name == "--tls")
      options.tls = true;
    else {
      std::fprintf(stderr, "gateway_bench [--idle N] [--streams N] [--seconds N] [--tokens-per-message N] [--tls]\n");
      std::exit(2);
    }
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  const auto options = parse(argc, argv);
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  auto* place = mmap(nullptr, sizeof(BenchShared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto* shared = new (place) BenchShared;
  const pid_t server = getpid();
  const pid_t client = fork();
  if (client == 0) {
    run_bench_client(*shared, options, server);
    shared->done = true;
    std::_Exit(0);
  }
  serve(shared, options);
  waitpid(client, nullptr, 0);
  return 0;
}
