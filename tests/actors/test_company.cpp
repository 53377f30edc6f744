#include "tests/actors/test_company.h"

#include "actors/wire/common.h"
#include "actors/wire/request.h"
#include "messages/caf_types.h"
#include "messages/supervision.capnp.h"
#include "tests/support/tiny_model.h"

#include <sstream>

namespace troupe::test {
namespace {

using Streams = std::map<std::uint64_t, Stream>;

/// The gateway's side: one stream a request.
class RecordingGateway final : public caf::event_based_actor {
 public:
  RecordingGateway(caf::actor_config& cfg, std::shared_ptr<Streams> streams, std::shared_ptr<std::vector<std::string>> directory,
                   std::shared_ptr<std::vector<std::string>> log, bool grant)
      : caf::event_based_actor(cfg), streams_(std::move(streams)), directory_(std::move(directory)), log_(std::move(log)), grant_(grant) {
    set_down_handler([this](const caf::down_msg& down) {
      for (auto& [id, stream] : *streams_)
        if (stream.session && stream.session.address() == down.source) {
          stream.session_died = stream.finished == 0;
          stream.session = {};
        }
    });
  }

  caf::behavior make_behavior() override {
    return {
        [this](const Message<messages::RequestAdmitted>& message) {
          auto& stream = (*streams_)[message->getRequest()];
          ++stream.admitted;
          stream.prompt_tokens = message->getPromptTokens();
        },
        [this](const Message<messages::TokenDelta>& message) { on_delta(*message); },
        [this](const Message<messages::RequestFinished>& message) { on_finished(*message); },
        [this](const Message<messages::DirectoryChanged>& message) {
          for (auto model : message->getModels())
            directory_->push_back(std::string(model.getName().cStr()) + " " + std::to_string(model.getReplicasServing()));
        },
        [this](const Message<messages::DrainNode>&) {
          drain_asker_ = caf::actor_cast<caf::actor>(current_sender());
          check_drained();
        },
        [this](caf::actor session) { monitor(session); },
    };
  }

 private:
  void on_delta(messages::TokenDelta::Reader delta) {
    auto& stream = (*streams_)[delta.getRequest()];
    if (delta.getNumber() != stream.deltas++) stream.error = Error{};  // a gap; no test expects such an error
    for (auto piece : delta.getPieces()) {
      stream.text[piece.getChoice()] += piece.getText().cStr();
      for (auto id : piece.getTokenIds()) stream.ids[piece.getChoice()].push_back(id);
      for (auto logprob : piece.getLogprobs().getChosen()) stream.logprobs[piece.getChoice()].push_back(logprob);
    }
    if (!grant_ || !stream.session) return;
    send(stream.session, Message<messages::GrantCredit>::build([&](messages::GrantCredit::Builder credit) {
           credit.setRequest(delta.getRequest());
           credit.setDeltas(1);
         }));
  }

  void on_finished(messages::RequestFinished::Reader finished) {
    auto& stream = (*streams_)[finished.getRequest()];
    ++stream.finished;
    const auto outcome = finished.getOutcome();
    if (outcome.isError()) stream.error = actors::wire::decode(outcome.getError());
    if (outcome.isChoices())
      for (auto end : outcome.getChoices()) {
        stream.reasons.push_back(end.getReason());
        stream.stops.emplace_back(end.getStop().cStr());
      }
    if (outcome.isTokens()) stream.tokenized = actors::wire::to_vector<TokenId>(outcome.getTokens());
    stream.prompt_tokens = finished.getPromptTokens();
    stream.output_tokens = finished.getOutputTokens();
    if (finished.hasCache()) stream.cache = actors::wire::decode(finished.getCache());
    check_drained();
  }

  void check_drained() {
    if (!drain_asker_) return;
    for (auto& [id, stream] : *streams_)
      if (stream.finished == 0 && stream.session) return;
    log_->push_back("Gateway>NodeSupervisor:Drained");
    send(drain_asker_, Message<messages::Drained>::build([](messages::Drained::Builder drained) { drained.setRole(Role::GATEWAY); }));
    drain_asker_ = {};
  }

  std::shared_ptr<Streams> streams_;
  std::shared_ptr<std::vector<std::string>> directory_, log_;
  bool grant_;
  caf::actor drain_asker_;
};

}  // namespace

bool ManualCompute::run_one() {
  if (jobs_.empty()) return false;
  auto job = std::move(jobs_.front());
  jobs_.pop_front();
  job();
  return true;
}

TestCompany::TestCompany(TestCompanyOptions options) : grant_credit_(options.grant_credit) {
  options.engine.stores_by_hand = stores;
  tokenizer = text::Tokenizer::make(tiny_vocabulary(options.vocabulary)).value();
  actors::CompanySpec spec;
  spec.replica.model_name = "tiny";
  if (!options.make_engine) spec.replica.model_content = {3, 4};  // an engine of its own reads a file of its own
  spec.replica.tokenizer = tokenizer;
  spec.replica.chat_template = text::ChatTemplate::compile(options.chat_template, "<|im_start|>", "<|im_end|>").value();
  spec.replica.scheduler = options.scheduler;
  if (spec.replica.scheduler.context_tokens == 0) spec.replica.scheduler.context_tokens = options.engine.context_tokens;
  spec.replica.make_engine = options.make_engine;
  spec.replica.shard = options.shard;
  if (!spec.replica.make_engine)
    spec.replica.make_engine = [engine = options.engine, steps = std::make_shared<std::uint64_t>(0)] {
      return std::make_unique<FakeEngine>(engine, steps);
    };
  if (options.processes > 0) {
    spec.replica.shape.tensor_ranks = options.processes;
    spec.replica.make_engine = {};
    spec.replica.start_rank = [this](std::uint16_t rank, Incarnation incarnation) { started.emplace_back(rank, incarnation); };
  }
  spec.replica.watchdog = options.watchdog;
  spec.replica.epochs = options.epochs;
  spec.metrics = metrics;
  spec.actors = options.actors;
  spec.retry_budget = options.retry_budget;
  spec.max_stored_tokens = options.max_stored_tokens;
  spec.on_fatal = [this](int code, const std::string&) { fatal = code; };
  spec.on_ready = [this](const exec::ShardFacts&) { ready = true; };
  spec.on_drained = [this](std::uint32_t cut) { drained = cut; };
  spec.compute = compute;
  spec.tap = [this](std::string_view sender, std::uint64_t receiver, std::string_view message) {
    log->push_back(std::string(sender) + ">" + role_of(receiver) + ":" + std::string(message));
  };
  gateway = system.spawn<RecordingGateway>(streams, directory, log, options.grant_credit);
  company.emplace(system, std::move(spec));
  company->attach_gateway(gateway);
  settle();
}

TestCompany::~TestCompany() {
  caf::anon_send_exit(gateway, caf::exit_reason::user_shutdown);
  for (auto& [id, stream] : *streams) stream.session = {};
  company.reset();
  settle();
  gateway = {};
}

std::string TestCompany::role_of(std::uint64_t actor_id) const {
  static constexpr std::pair<Role, const char*> kNames[] = {{Role::NODE_SUPERVISOR, "NodeSupervisor"},
                                                            {Role::GATEWAY, "Gateway"},
                                                            {Role::SESSION_STORE, "SessionStore"},
                                                            {Role::ROUTER, "Router"},
                                                            {Role::SCHEDULER, "Scheduler"},
                                                            {Role::DEVICE_TIER, "DeviceTier"},
                                                            {Role::HOST_TIER, "HostTier"},
                                                            {Role::DISK_TIER, "DiskTier"},
                                                            {Role::SHARD, "Shard"},
                                                            {Role::REPLICA_SUPERVISOR, "ReplicaSupervisor"}};
  if (gateway && gateway.id() == actor_id) return "Gateway";
  if (company)
    for (auto [role, name] : kNames)
      if (const auto actor = find(role); actor && actor.id() == actor_id) return name;
  return "RequestSession";
}

void TestCompany::settle(std::size_t jobs) {
  run_actors();
  for (std::size_t i = 0; i < jobs && compute->run_one(); ++i) run_actors();
}

void TestCompany::run_actors() {
  do scheduler().run();
  while (!hold_moves && *stores != nullptr && (*stores)->run_one());
}

void TestCompany::advance(milliseconds time) {
  constexpr milliseconds kStep{10};
  settle();
  for (milliseconds passed{0}; passed < time; passed += kStep) {
    scheduler().advance_time(kStep);
    settle();
  }
}

void TestCompany::advance_stalled(milliseconds time) {
  constexpr milliseconds kStep{10};
  settle(0);
  for (milliseconds passed{0}; passed < time; passed += kStep) {
    scheduler().advance_time(kStep);
    settle(0);
  }
}

void TestCompany::run_until_finished(RequestId request, milliseconds limit) {
  settle();
  for (milliseconds passed{0}; passed < limit && stream(request).finished == 0 && !stream(request).session_died; passed += milliseconds{10})
    advance(milliseconds{10});
}

RequestId TestCompany::submit(session::Request request) {
  if (!request.request) request.request = RequestId{next_request_};
  next_request_ = request.request.value + 1;
  const auto id = request.request;
  auto& stream = (*streams)[id.value];
  stream.session = company->session_factory()(gateway);
  caf::anon_send(gateway, stream.session);
  log->push_back("Gateway>RequestSession:SubmitRequest");
  caf::anon_send(stream.session, actors::wire::encode(request));
  return id;
}

session::Request TestCompany::completion(std::vector<TokenId> prompt, std::uint32_t max_tokens) {
  session::Request request;
  request.endpoint = session::Endpoint::kCompletions;
  request.model = "tiny";
  request.input = std::move(prompt);
  request.max_tokens = max_tokens;
  request.sampling.temperature = 0;
  request.stream = true;
  request.credit = 64;
  request.owner = {7, 7};
  return request;
}

session::Request TestCompany::chat(std::vector<session::InputItem> items, std::uint32_t max_tokens) {
  auto request = completion({}, max_tokens);
  request.endpoint = session::Endpoint::kResponses;
  request.input = std::move(items);
  request.retention = session::Retention::kMemory;
  return request;
}

void TestCompany::cancel(RequestId request, bool silent) {
  caf::anon_send<caf::message_priority::high>((*streams)[request.value].session,
                                              Message<messages::Cancel>::build([&](messages::Cancel::Builder cancel) {
                                                cancel.setRequest(request.value);
                                                cancel.setSilent(silent);
                                              }));
}

void TestCompany::grant(RequestId request, std::uint32_t deltas) {
  caf::anon_send((*streams)[request.value].session, Message<messages::GrantCredit>::build([&](messages::GrantCredit::Builder credit) {
                   credit.setRequest(request.value);
                   credit.setDeltas(deltas);
                 }));
}

std::vector<TokenId> TestCompany::tokens_of(std::string_view text) const {
  std::vector<TokenId> tokens;
  for (unsigned char byte : text) tokens.push_back(3U + byte);
  return tokens;
}

bool TestCompany::saw(const std::vector<std::string>& wanted) const {
  auto next = wanted.begin();
  for (const auto& line : *log)
    if (next != wanted.end() && line == *next) ++next;
  return next == wanted.end();
}

std::size_t TestCompany::count(std::string_view message) const {
  return static_cast<std::size_t>(std::count(log->begin(), log->end(), message));
}

double TestCompany::metric(const std::string& line_start) const {
  std::istringstream text(metrics->prometheus_text());
  for (std::string line; std::getline(text, line);)
    if (line.starts_with(line_start + " ") || line.starts_with(line_start + "{")) return std::stod(line.substr(line.rfind(' ')));
  return -1;
}

bool TestCompany::all_blocks_free() {
  advance(milliseconds{200});
  const auto blocks = [this](const char* state) { return metric("troupe:cache_blocks{state=\"" + std::string(state) + "\"}"); };
  return metric("vllm:num_requests_running") == 0 && metric("vllm:num_requests_waiting") == 0 && blocks("locked") == 0 &&
         blocks("leased") == metric("troupe:leased_blocks");
}

}  // namespace troupe::test
