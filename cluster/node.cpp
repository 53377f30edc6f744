// See node.h. The parts stand in the order of the layers; they are taken down in the reverse order.
#include "cluster/node.h"

#include "actors/actor_config.h"
#include "actors/company.h"
#include "cluster/key_file.h"
#include "cluster/launch/stored_codec.h"
#include "cluster/node_options.h"
#include "cluster/rank_processes.h"
#include "cluster/system_prompts_file.h"
#include "gateway/gateway.h"
#include "gateway/gateway_actor.h"
#include "gateway/openssl_tls.h"
#include "messages/error_reasons.h"
#include "runtime/base/log.h"
#include "runtime/base/metrics.h"
#include "runtime/schedule/policy_table.h"

#include <caf/actor_system.hpp>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <sched.h>
#include <thread>

namespace troupe::cluster {
namespace {

constexpr std::chrono::milliseconds kFatalGrace{2000};  // for clients to take their terminal events
constexpr std::chrono::milliseconds kQuick{1};
constexpr std::uint64_t kResponseShare = 16;  // of the disk cache: ids and words take little beside keys and values
constexpr std::uint64_t kLeastResponseBytes = 16 << 20;
constexpr int kSignalsAtOnce = 3;  // then the process ends without a word

actors::CompanySpec company_spec(const Options& options, const ServedModel& model, exec::Faults fault, EngineFactory make_engine) {
  actors::CompanySpec spec;
  actors::ReplicaSpec& replica = spec.replica;
  replica.model_name = model.name;
  replica.model_content = model.content.hash;
  replica.tokenizer = model.tokenizer;
  replica.chat_template = model.chat_template;
  replica.scheduler = scheduler_options(options);
  replica.scheduler.context_tokens = model.context_tokens;
  replica.shard = shard_spec(options);
  replica.shard.known_content = model.content;
  replica.make_engine = std::move(make_engine);
  if (!replica.make_engine) replica.make_engine = [fault = std::move(fault)] { return exec::make_shard_engine(fault); };
  replica.watchdog = std::chrono::milliseconds(options.watchdog_ms);
  spec.session_ttl = std::chrono::seconds(options.store_ttl_seconds);
  spec.max_stored_tokens = options.store_memory / 2 / sizeof(TokenId);
  if (const auto folder = cache_folder(options, process_environment); options.disk_cache > 0 && !folder.empty())
    spec.response_log = session::ResponseLogOptions{
        .folder = folder, .max_bytes = std::max(options.disk_cache / kResponseShare, kLeastResponseBytes), .default_ttl = spec.session_ttl};
  if (!options.fault.empty()) replica.epochs.restarts = 100'000;  // tests lose the group on purpose
  return spec;
}

void place_ranks(actors::ReplicaSpec& replica, const ClusterPlan& plan) {
  replica.shape = plan.shape;
  replica.codec = plan.codec;
  replica.join_timeout = plan.join_timeout;
  replica.shard.transport.name = plan.transport;
  for (const RankPlan& rank : plan.ranks) replica.interfaces.push_back(rank.interface);
}

/// For this thread and all that it starts.
void take_cores(const std::vector<std::uint16_t>& cores) {
  if (cores.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const auto core : cores) CPU_SET(core, &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0)
    base::log(base::LogLevel::kWarning, "cores_refused", "reason=" + base::log_value("the gateway node may not have its cores"));
}

// Null where no certificate is given.
Result<std::shared_ptr<gateway::TlsContext>> read_tls(const Options& options) {
  if (options.tls_cert.empty() && options.tls_key.empty()) return std::shared_ptr<gateway::TlsContext>();
  if (options.tls_cert.empty() || options.tls_key.empty())
    return make_error(
        ErrorClass::kInvalidRequest, ErrorReason::kBadConfig,
        options.tls_cert.empty() ? "--tls-key needs --tls-cert, the certificate" : "--tls-cert needs --tls-key, its private key",
        options.tls_cert.empty() ? "tls-cert" : "tls-key");
  return gateway::load_tls(options.tls_cert, options.tls_key);
}

}  // namespace

struct Node::Parts {
  Parts(const Options& o, NodeEvents e, ServedModel m) : options(o), events(std::move(e)), model(std::move(m)) {}

  void announce();
  void on_signal();
  void on_reload();
  void on_fatal(int code, const std::string& reason);
  void keep(const launch::StoredCodec& stored, const std::string& codec);

  const Options options;
  const NodeEvents events;
  const ServedModel model;
  std::string url;
  bool codec_kept = false;  // measured by an earlier start
  std::atomic<int> signals{0}, exit_code{0};
  std::mutex ready_mutex;  // the three below
  std::optional<exec::ShardFacts> facts;
  bool serving = false, announced = false;
  std::shared_ptr<base::Metrics> metrics = std::make_shared<base::Metrics>();
  std::optional<gateway::Gateway> gateway;
  std::optional<actors::ActorConfig> actor_config;
  std::optional<caf::actor_system> system;
  std::shared_ptr<RankProcesses> ranks;  // null: the only one is in this process
  std::optional<actors::Company> company;
  std::jthread codec_writer;
  std::optional<gateway::GatewayActor> gateway_actor;
};

/// Ready is when the model is loaded and the gateway knows it: then a request will not be told to come back later.
void Node::Parts::announce() {
  std::lock_guard lock(ready_mutex);
  if (announced || !serving || !facts) return;
  announced = true;
  if (events.on_ready) events.on_ready({model, *facts, url, codec_kept});
}

void Node::Parts::on_signal() {
  const int count = ++signals;
  if (events.on_signal) events.on_signal(count);
  if (count >= kSignalsAtOnce) std::_Exit(EXIT_FAILURE);
  company->drain(count == 1 ? std::chrono::seconds(options.grace_seconds) : kQuick);
  if (count > 1) gateway->drain(kQuick);  // also where no actor is left to pass it on
}

/// All or nothing: a bad file leaves everything as it was.
void Node::Parts::on_reload() {
  auto keys = read_keys(options);
  auto tls = read_tls(options);
  for (const Error* error : {keys ? nullptr : &keys.error(), tls ? nullptr : &tls.error()})
    if (error != nullptr) return base::log(base::LogLevel::kError, "reload_failed", "reason=" + base::log_value(error->client_text));
  base::log(base::LogLevel::kInfo, "reloaded",
            "api_keys=" + std::to_string(keys->api.size()) + " admin_keys=" + std::to_string(keys->admin.size()));
  gateway->set_keys(std::move(*keys));
  gateway->set_tls(std::move(*tls));
}

void Node::Parts::on_fatal(int code, const std::string& reason) {
  int none = 0;
  exit_code.compare_exchange_strong(none, code == 0 ? EXIT_FAILURE : code);
  if (events.on_fatal) events.on_fatal(reason);
  gateway->drain(kFatalGrace);
}

/// In a thread of its own: an actor's worker waits for no disk.
void Node::Parts::keep(const launch::StoredCodec& stored, const std::string& codec) {
  codec_writer = std::jthread([stored, codec] {
    if (stored.find() == codec) return;
    if (const auto status = stored.keep(codec); !status)
      base::log(base::LogLevel::kWarning, "codec_not_kept", "reason=" + base::log_value(status.error().client_text));
  });
}

Result<std::unique_ptr<Node>> Node::make(const Options& options, NodeEvents events, bool handle_signals, EngineFactory make_engine,
                                         std::optional<ClusterPlan> cluster) {
  // All that a user can get wrong, before anything is started.
  if (auto status = check_isa(options.isa); !status) return status.error();
  if (auto policy = schedule::make_policy(options.policy); !policy) return policy.error();
  auto fault = exec::parse_fault(options.fault);
  if (!fault) return fault.error();
  auto keys = read_keys(options);
  if (!keys) return keys.error();
  auto tls = read_tls(options);
  if (!tls) return tls.error();
  auto prompts = read_system_prompts(options.system_prompts_file);
  if (!prompts) return prompts.error();
  auto model = open_served_model(options.model, options.served_model_name, base::CacheFolder(cache_folder(options, process_environment)));
  if (!model) return model.error();

  std::optional<launch::StoredCodec> stored_codec;  // where it is measured
  if (cluster && cluster->codec == "auto") {
    const base::CacheFolder folder(cache_folder(options, process_environment));
    stored_codec.emplace(folder, model->content.hash, *cluster, options, launch::cpu_description());
    if (const auto known = stored_codec->find(); known && !options.remeasure) cluster->codec = *known;
  }
  std::shared_ptr<RankProcesses> ranks;
  if (cluster) {
    take_cores(cluster->gateway_cores);
    auto processes = RankProcesses::make(*cluster, options);
    if (!processes) return processes.error();
    ranks = std::move(*processes);
  }

  std::unique_ptr<Node> node(new Node(std::make_unique<Parts>(options, std::move(events), std::move(*model))));
  Parts* parts = node->parts_.get();
  parts->ranks = std::move(ranks);
  parts->codec_kept = stored_codec && cluster->codec != "auto";
  auto listener = gateway_options(options);
  listener.keys = std::move(*keys);
  listener.tls = std::move(*tls);
  listener.system_prompts = std::move(*prompts);
  listener.handle_signals = handle_signals;
  listener.on_signal = [parts] { parts->on_signal(); };
  if (!options.api_key_file.empty() || !options.admin_key_file.empty() || listener.tls)
    listener.on_reload = [parts] { parts->on_reload(); };
  parts->gateway.emplace(std::move(listener), *parts->metrics);
  if (auto status = parts->gateway->listen(); !status) return status.error();
  parts->url = parts->gateway->url();

  parts->actor_config.emplace(actors::default_workers(std::thread::hardware_concurrency()));
  if (parts->ranks) parts->ranks->configure(*parts->actor_config);
  parts->system.emplace(*parts->actor_config);
  actors::CompanySpec spec = company_spec(options, parts->model, std::move(*fault), std::move(make_engine));
  const std::uint32_t replica = spec.replica.replica.value;
  spec.metrics = parts->metrics;
  spec.on_load_progress = parts->events.on_load_progress;
  spec.on_ready = [parts, stored_codec](const exec::ShardFacts& facts) {
    if (stored_codec) parts->keep(*stored_codec, facts.codec);
    {
      std::lock_guard lock(parts->ready_mutex);
      parts->facts = facts;
    }
    parts->announce();
  };
  if (cluster) {
    parts->ranks->attach(*parts->system);
    spec.replica.make_engine = {};
    place_ranks(spec.replica, *cluster);
    spec.replica.start_rank = [processes = parts->ranks](std::uint16_t rank, Incarnation incarnation) {
      processes->start(rank, incarnation);
    };
  }
  spec.on_fatal = [parts](int code, const std::string& reason) { parts->on_fatal(code, reason); };
  parts->company.emplace(*parts->system, std::move(spec));
  if (cluster) {
    parts->ranks->tell([parts](std::uint16_t rank, Incarnation incarnation, const std::string& how) {
      parts->company->tell_rank_ended(rank, incarnation, how);
    });
    const auto door = parts->company->open_door({cluster->name, cluster->digest, parts->ranks->nodes(), parts->ranks->ask_names()});
    if (auto status = parts->ranks->publish(door); !status) return status.error();
  }
  gateway::GatewayLinks links;
  links.spawn_session = parts->company->session_factory();
  links.session_store = [parts] { return parts->company->find(actors::Role::SESSION_STORE); };
  links.device_tier = [parts, replica] { return parts->company->find(actors::Role::DEVICE_TIER, replica); };
  links.on_serving = [parts] {
    {
      std::lock_guard lock(parts->ready_mutex);
      parts->serving = true;
    }
    parts->announce();
  };
  parts->gateway_actor.emplace(*parts->system, *parts->gateway, std::move(links));
  parts->company->attach_gateway(parts->gateway_actor->actor());
  return node;
}

Node::Node(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

Node::~Node() {
  parts_->gateway_actor.reset();
  if (parts_->ranks) parts_->ranks->tell({});
  parts_->company.reset();
  if (parts_->ranks) parts_->ranks->end();
  parts_->system.reset();  // waits for all actors
}

const ServedModel& Node::model() const { return parts_->model; }

std::string Node::url() const { return parts_->url; }

int Node::run() {
  parts_->gateway->run();
  return parts_->exit_code;
}

void Node::drain(std::chrono::milliseconds grace) { parts_->company->drain(grace); }

}  // namespace troupe::cluster
