// The cluster link as CAF's middleman sees it: BASP (CAF's protocol) over LinkSessions instead of plain sockets. CAF's own middleman actor
// stays unused: it would speak plain text. Both ends are troupe processes that showed each other a certificate; what a member sends is
// bounded all the same: a message above kMostLinkBytes ends its connection with a reason in the log.
// PeerNames: who is at the other end of a living connection; how the door knows that a node is whom it says. And whether all are about to
// end, since this node does: then one that ends is no loss.
#pragma once
#include "actors/ask_peer_names.h"
#include "cluster/link/link_listener.h"

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/actor.hpp>

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace troupe::cluster::link {

/// Twice what a message may have (common.capnp), for what CAF adds.
inline constexpr std::size_t kMostLinkBytes = 2 << 20;

/// Before the actor system is made. `silence`: a peer not heard for that long is lost; both ends must agree about the two.
void enable_link(caf::actor_system_config& config, std::chrono::milliseconds heartbeat, std::chrono::milliseconds silence);

/// Any thread.
class PeerNames {
 public:
  void put(const std::string& address, std::vector<std::string> names);
  void erase(const std::string& address);
  std::vector<std::string> find(const std::string& address) const;
  void expect_ends() { ends_expected_ = true; }
  bool ends_expected() const { return ends_expected_; }

 private:
  std::atomic<bool> ends_expected_{false};
  mutable std::mutex mutex_;
  std::map<std::string, std::vector<std::string>> names_;  // by host:port
};

struct LinkActorOptions {
  LinkTls tls;
  std::shared_ptr<LinkListener> listener;  // of a node that others connect to
  std::string peer;                        // name of the node that this one connects to
  std::chrono::milliseconds timeout{5000};
  std::shared_ptr<PeerNames> names = std::make_shared<PeerNames>();
};

/// Ends with the exit reason `kill` alone; must have ended before the actor system does. Takes CAF's messages to a middleman actor.
caf::actor spawn_link(caf::actor_system& system, LinkActorOptions options);

/// Actors that reach this node through its listener are given `door`. Once.
Status publish_door(caf::actor_system& system, const caf::actor& link, const caf::actor& door);

actors::AskPeerNames peer_names_of(const caf::actor& link, std::shared_ptr<const PeerNames> names);

}  // namespace troupe::cluster::link
