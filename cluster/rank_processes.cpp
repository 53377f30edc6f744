#include "cluster/rank_processes.h"

#include "runtime/base/log.h"
#include "runtime/collective/left_segments.h"

#include <caf/send.hpp>

#include <algorithm>

namespace troupe::cluster {
namespace {

Result<link::NodeCertificate> certificate_of(const CertificateFiles& files, const std::string& node,
                                             std::optional<link::CertificateMaker>& maker, const std::string& cluster) {
  if (!files.certificate.empty())
    return link::NodeCertificate::read(files.authority, files.certificate, files.key, "certificate of node " + node);
  if (!maker) {
    auto made = link::CertificateMaker::make(cluster);
    if (!made) return made.error();
    maker = std::move(*made);
  }
  return maker->issue(node);
}

}  // namespace

Result<std::shared_ptr<RankProcesses>> RankProcesses::make(const ClusterPlan& plan, const Options& options) {
  std::optional<link::CertificateMaker> maker;
  auto own = certificate_of(plan.gateway_certificate, plan.gateway_node, maker, plan.name);
  if (!own) return own.error();
  auto tls = link::LinkTls::make(*own);
  if (!tls) return tls.error();
  std::shared_ptr<RankProcesses> made(new RankProcesses(plan, *tls));
  auto listener = link::LinkListener::open(plan.control_host, plan.control_port, *tls);
  if (!listener) return listener.error();
  made->listener_ = std::move(*listener);
  for (std::uint16_t rank = 0; rank < plan.ranks.size(); ++rank) {
    const RankPlan& row = plan.ranks[rank];
    auto certificate = certificate_of(row.certificate, row.node, maker, plan.name);
    if (!certificate) return certificate.error();
    RankOrder order;
    order.cluster = plan.name;
    order.digest = plan.digest;
    order.node = row.node;
    order.rank = rank;
    order.door_host = plan.control_host;
    order.door_port = made->listener_->port();
    order.door_node = plan.gateway_node;
    order.heartbeat = plan.heartbeat;
    order.silence = plan.silence;
    order.log_level = options.log_level;
    order.log_format = options.log_format;
    order.fault = options.fault;
    order.certificate = std::move(*certificate);
    made->orders_.push_back(std::move(order));
  }
  return made;
}

void RankProcesses::attach(caf::actor_system& system) {
  system_ = &system;
  link_ = link::spawn_link(system, {tls_, listener_, {}, std::chrono::milliseconds{5000}, names_});
  keeper_ = std::make_unique<ProcessKeeper>([this](std::size_t index, std::uint64_t number, const std::string& how) {
    const std::lock_guard guard(mutex_);
    if (!on_exit_) return;
    base::log(base::LogLevel::kInfo, "process_ended", "index=" + std::to_string(index) + " reason=" + base::log_value(how));
    on_exit_(static_cast<std::uint16_t>(index), number, how);
  });
}

std::vector<std::string> RankProcesses::nodes() const {
  std::vector<std::string> names;
  for (const RankPlan& row : plan_.ranks) names.push_back(row.node);
  return names;
}

void RankProcesses::start(std::uint16_t rank, Incarnation incarnation) {
  RankOrder order = orders_.at(rank);
  order.incarnation = incarnation;
  ProcessSpec spec;
  spec.arguments = {"shard", order.node};  // the name for who lists processes
  if (order.log_format != "json") spec.line_prefix = "[" + order.node + "] ";
  spec.network_namespace = plan_.ranks[rank].network_namespace;
  spec.cores = plan_.ranks[rank].cores;
  spec.secret = order.text();
  spec.number = incarnation;
  const std::lock_guard guard(mutex_);
  if (keeper_) keeper_->start(rank, std::move(spec));
}

void RankProcesses::tell(OnExit on_exit) {
  if (!on_exit) names_->expect_ends();
  const std::lock_guard guard(mutex_);
  on_exit_ = std::move(on_exit);
}

void RankProcesses::end() {
  if (system_ == nullptr) return;
  tell({});
  std::unique_ptr<ProcessKeeper> last;
  {
    const std::lock_guard guard(mutex_);
    last.swap(keeper_);
  }
  last.reset();
  collective::remove_left_segments();  // of those that had to be killed
  caf::anon_send_exit(link_, caf::exit_reason::kill);
  link_ = {};
  system_ = nullptr;
}

}  // namespace troupe::cluster
