// RankProcesses: the rank processes of a node's replica and the control port that they come back to: certificates, listener, link and
// keeper. Owned by the Node, which makes it before the actor system, attaches it to that, and ends it before. start() may be called by any
// thread.
#pragma once
#include "cluster/cluster_plan.h"
#include "cluster/link/link_actor.h"
#include "cluster/options.h"
#include "cluster/process_keeper.h"
#include "cluster/rank_order.h"

#include <caf/actor_system.hpp>

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace troupe::cluster {

class RankProcesses {
 public:
  using OnExit = std::function<void(std::uint16_t rank, Incarnation incarnation, const std::string& how)>;
  /// Certificates and listener. Errors: everything a user can get wrong.
  static Result<std::shared_ptr<RankProcesses>> make(const ClusterPlan& plan, const Options& options);
  ~RankProcesses() { end(); }
  /// Before the actor system is made.
  void configure(caf::actor_system_config& config) const { link::enable_link(config, plan_.heartbeat, plan_.silence); }
  void attach(caf::actor_system& system);
  /// From the keeper's thread; must not block. Empty: nobody is told from now on, since the node ends.
  void tell(OnExit on_exit);
  actors::AskPeerNames ask_names() const { return link::peer_names_of(link_, names_); }
  std::vector<std::string> nodes() const;
  Status publish(const caf::actor& door) { return link::publish_door(*system_, link_, door); }
  /// What is left of the rank is killed first. Nothing after end().
  void start(std::uint16_t rank, Incarnation incarnation);
  /// Ends all processes, waits for them, and lets the link go. Before the actor system ends.
  void end();

 private:
  RankProcesses(const ClusterPlan& plan, link::LinkTls tls) : plan_(plan), tls_(std::move(tls)) {}
  const ClusterPlan plan_;
  const link::LinkTls tls_;
  std::shared_ptr<link::LinkListener> listener_;
  std::shared_ptr<link::PeerNames> names_ = std::make_shared<link::PeerNames>();
  std::vector<RankOrder> orders_;  // by rank; without the incarnation
  caf::actor_system* system_ = nullptr;
  caf::actor link_;
  std::mutex mutex_;
  OnExit on_exit_;  // the two are guarded by mutex_
  std::unique_ptr<ProcessKeeper> keeper_;
};

}  // namespace troupe::cluster
