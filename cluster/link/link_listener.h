// LinkListener: the door of the control port. Accepts connections, shakes hands with each on its own thread, and hands on those alone whose
// peer has shown a certificate of the cluster; every other one is refused with a reason in the log. Until then a connection costs
// a socket and one TLS session, at most so many at a time, and no longer than the time-out: the oldest makes room for a new one.
// connect_link(): the other side. Blocks, with the same time-out.
#pragma once
#include "cluster/link/link_session.h"
#include "runtime/base/descriptor.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace troupe::cluster::link {

struct LinkLimits {
  std::chrono::milliseconds handshake{5000};
  std::size_t handshakes = 32;  // under way
};

/// A connection whose peer is known.
struct LinkConnection {
  base::Descriptor socket;
  std::unique_ptr<LinkSession> session;
  std::vector<std::string> peer_names;
  std::string address;  // host:port, for the log
};

class LinkListener {
 public:
  /// `host` is an address, not a name. An Error names host and port.
  static Result<std::shared_ptr<LinkListener>> open(const std::string& host, std::uint16_t port, LinkTls tls, LinkLimits limits = {});
  ~LinkListener();
  std::uint16_t port() const { return port_; }
  /// Becomes readable by one byte for each connection that take() will give. Once; belongs to the caller from now on.
  base::Descriptor take_signal() { return std::move(signal_[0]); }
  std::optional<LinkConnection> take();

 private:
  struct Handshake {
    LinkConnection connection;
    std::chrono::steady_clock::time_point deadline;
    bool wants_write = false;
  };
  LinkListener(LinkTls tls, LinkLimits limits) : tls_(std::move(tls)), limits_(limits) {}
  void run();
  void accept_all();
  bool go_on(Handshake& handshake);
  void log_refused(const LinkConnection& connection, const std::string& reason);

  const LinkTls tls_;
  const LinkLimits limits_;
  base::Descriptor socket_, signal_[2], stop_[2];
  std::uint16_t port_ = 0;
  // Own thread only:
  std::vector<Handshake> handshakes_;  // oldest first
  std::chrono::steady_clock::time_point log_second_;
  unsigned logged_ = 0;  // in that second
  std::mutex mutex_;
  std::deque<LinkConnection> ready_;  // guarded by mutex_
  std::thread thread_;
};

/// A peer whose certificate does not name `peer` is refused.
Result<LinkConnection> connect_link(const LinkTls& tls, const std::string& host, std::uint16_t port, const std::string& peer,
                                    std::chrono::milliseconds timeout);

}  // namespace troupe::cluster::link
