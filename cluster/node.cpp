// See node.h. The parts stand in the order of the layers; they are taken down in the reverse order.
#include "cluster/node.h"

#include "actors/actor_config.h"
#include "actors/company.h"
#include "cluster/key_file.h"
#include "cluster/node_options.h"
#include "gateway/gateway.h"
#include "gateway/gateway_actor.h"
#include "messages/error_reasons.h"
#include "runtime/base/metrics.h"
#include "runtime/schedule/policy_table.h"

#include <caf/actor_system.hpp>
#include <caf/send.hpp>

#include <atomic>
#include <cstdlib>
#include <optional>
#include <thread>

namespace troupe::cluster {
namespace {

constexpr std::chrono::milliseconds kFatalGrace{2000};  // for clients to take their terminal events
constexpr std::chrono::milliseconds kQuick{1};
constexpr int kSignalsAtOnce = 3;  // then the process ends without a word

actors::CompanySpec company_spec(const Options& options, const ServedModel& model, exec::FaultHook fault) {
  actors::CompanySpec spec;
  actors::ReplicaSpec& replica = spec.replica;
  replica.model_name = model.name;
  replica.model_content = model.content;
  replica.tokenizer = model.tokenizer;
  replica.chat_template = model.chat_template;
  replica.scheduler = scheduler_options(options);
  replica.scheduler.context_tokens = model.context_tokens;
  replica.shard = shard_spec(options);
  replica.make_engine = [fault = std::move(fault)] { return exec::make_shard_engine(fault); };
  replica.watchdog = std::chrono::milliseconds(options.watchdog_ms);
  if (!options.fault.empty()) replica.epochs.restarts = 100'000;  // tests lose the group on purpose
  return spec;
}

}  // namespace

struct Node::Parts {
  Parts(const Options& o, NodeEvents e, ServedModel m) : options(o), events(std::move(e)), model(std::move(m)) {}

  void on_signal();
  void on_fatal(int code, const std::string& reason);

  const Options options;
  const NodeEvents events;
  const ServedModel model;
  std::string url;
  std::atomic<int> signals{0}, exit_code{0};
  std::shared_ptr<base::Metrics> metrics = std::make_shared<base::Metrics>();
  std::optional<gateway::Gateway> gateway;
  std::optional<actors::ActorConfig> actor_config;
  std::optional<caf::actor_system> system;
  std::optional<actors::Company> company;
};

void Node::Parts::on_signal() {
  const int count = ++signals;
  if (events.on_signal) events.on_signal(count);
  if (count >= kSignalsAtOnce) std::_Exit(EXIT_FAILURE);
  company->drain(count == 1 ? std::chrono::seconds(options.grace_seconds) : kQuick);
  if (count > 1) gateway->drain(kQuick);  // also where no actor is left to pass it on
}

void Node::Parts::on_fatal(int code, const std::string& reason) {
  int none = 0;
  exit_code.compare_exchange_strong(none, code == 0 ? EXIT_FAILURE : code);
  if (events.on_fatal) events.on_fatal(reason);
  gateway->drain(kFatalGrace);
}
