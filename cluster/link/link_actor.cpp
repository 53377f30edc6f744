#include "cluster/link/link_actor.h"

#include "messages/error_reasons.h"
#include "runtime/base/log.h"

#include <caf/all.hpp>
#include <caf/io/basp/header.hpp>
#include <caf/io/basp_broker.hpp>
#include <caf/io/middleman.hpp>
#include <caf/io/middleman_actor_impl.hpp>
#include <caf/io/network/acceptor_impl.hpp>
#include <caf/io/network/default_multiplexer.hpp>
#include <caf/io/network/interfaces.hpp>
#include <caf/io/network/stream_impl.hpp>

#include <csignal>
#include <sys/socket.h>

namespace troupe::cluster::link {
namespace {

namespace io = caf::io;
namespace network = caf::io::network;

std::string endpoint(const std::string& host, std::uint16_t port) { return host + ":" + std::to_string(port); }

/// How CAF's stream reads and writes.
class SessionPolicy {
 public:
  explicit SessionPolicy(std::shared_ptr<LinkSession> session) : session_(std::move(session)) {}
  network::rw_state read_some(std::size_t& count, network::native_socket, void* bytes, std::size_t limit) {
    return state_of(session_->read(bytes, limit, count));
  }
  network::rw_state write_some(std::size_t& count, network::native_socket, const void* bytes, std::size_t size) {
    if (size == 0) return network::rw_state::indeterminate;  // nothing is left
    return state_of(session_->write(bytes, size, count));
  }
  bool must_read_more(network::native_socket, std::size_t threshold) const {
    return session_->pending() >= std::max<std::size_t>(threshold, 1);
  }

 private:
  static network::rw_state state_of(LinkSession::State state) {
    return state == LinkSession::State::kFailed ? network::rw_state::failure : network::rw_state::success;
  }
  std::shared_ptr<LinkSession> session_;
};

class LinkScribe final : public io::scribe {
 public:
  LinkScribe(network::default_multiplexer& multiplexer, LinkConnection connection, std::shared_ptr<PeerNames> names)
      : scribe(network::conn_hdl_from_socket(connection.socket.get())),
        session_(std::move(connection.session)),
        stream_(multiplexer, connection.socket.release(), session_),
        names_(std::move(names)),
        address_(endpoint(LinkScribe::addr(), LinkScribe::port())) {
    names_->put(address_, std::move(connection.peer_names));
  }
  ~LinkScribe() override {
    if (session_->refused() && !names_->ends_expected())
      base::log(base::LogLevel::kInfo, "link_lost", "peer=" + address_ + " reason=" + base::log_value(session_->reason()));
    names_->erase(address_);
  }

  void configure_read(io::receive_policy::config config) override {
    // CAF takes the memory for a message when it has seen its header: here is the only place to say no.
    if (config.second > kMostLinkBytes) {
      const std::string reason = "a message of " + std::to_string(config.second) + " bytes; the limit is " + std::to_string(kMostLinkBytes);
      base::log(base::LogLevel::kWarning, "link_refused", "peer=" + address_ + " reason=" + base::log_value(reason));
      session_->refuse(reason);
      config = io::receive_policy::exactly(io::basp::header_size);
    }
    stream_.configure_read(config);
    if (!std::exchange(launched_, true)) stream_.start(this);
  }
  void ack_writes(bool enable) override { stream_.ack_writes(enable); }
  std::vector<char>& wr_buf() override { return stream_.wr_buf(); }
  std::vector<char>& rd_buf() override { return stream_.rd_buf(); }
  void graceful_shutdown() override {
    stream_.graceful_shutdown();
    detach(&stream_.backend(), false);
  }
  void flush() override { stream_.flush(this); }
  std::string addr() const override {
    auto address = network::remote_addr_of_fd(stream_.fd());
    return address ? *address : std::string();
  }
  std::uint16_t port() const override {
    auto port = network::remote_port_of_fd(stream_.fd());
    return port ? *port : std::uint16_t{0};
  }
  void add_to_loop() override { stream_.activate(this); }
  void remove_from_loop() override { stream_.passivate(); }

 private:
  std::shared_ptr<LinkSession> session_;
  network::stream_impl<SessionPolicy> stream_;
  std::shared_ptr<PeerNames> names_;
  std::string address_;
  bool launched_ = false;
};

/// How CAF's acceptor accepts: one byte on the listener's signal is one connection.
struct SignalPolicy {
  static bool try_accept(network::native_socket& accepted, network::native_socket signal) {
    char byte;
    if (::recv(signal, &byte, 1, MSG_DONTWAIT) != 1) return false;
    accepted = signal;  // anything valid; the doorman takes the connection itself
    return true;
  }
};

class LinkDoorman final : public io::doorman {
 public:
  LinkDoorman(network::default_multiplexer& multiplexer, int signal, std::shared_ptr<LinkListener> listener,
              std::shared_ptr<PeerNames> names)
      : doorman(network::accept_hdl_from_socket(signal)),
        acceptor_(multiplexer, signal),
        listener_(std::move(listener)),
        names_(std::move(names)) {}

  bool new_connection() override {
    if (detached()) return false;
    auto connection = listener_->take();
    if (!connection) return true;
    auto scribe = caf::make_counted<LinkScribe>(acceptor_.backend(), std::move(*connection), names_);
    const auto handle = scribe->hdl();
    parent()->add_scribe(std::move(scribe));
    return doorman::new_connection(&acceptor_.backend(), handle);
  }
  void graceful_shutdown() override {
    acceptor_.graceful_shutdown();
    detach(&acceptor_.backend(), false);
  }
  void launch() override { acceptor_.start(this); }
  std::string addr() const override { return {}; }
  std::uint16_t port() const override { return listener_->port(); }
  void add_to_loop() override { acceptor_.activate(this); }
  void remove_from_loop() override { acceptor_.passivate(); }

 private:
  network::acceptor_impl<SignalPolicy> acceptor_;
  std::shared_ptr<LinkListener> listener_;
  std::shared_ptr<PeerNames> names_;
};

/// CAF 0.17.6 gives a new connection no time at which it was last heard, so that a heartbeat before the first message takes it for silent
/// since the clock began, and drops it.
class LinkBroker final : public io::basp_broker {
 public:
  using basp_broker::basp_broker;
  resume_result resume(caf::execution_unit* unit, std::size_t most_messages) override {
    auto result = resumable::resume_later;
    for (std::size_t i = 0; i < most_messages && result == resumable::resume_later; ++i) {
      for (auto& [handle, connection] : ctx)
        if (connection.last_seen == caf::actor_clock::time_point()) connection.last_seen = clock().now();
      result = basp_broker::resume(unit, 1);
    }
    return result;
  }
};

class LinkActor final : public io::middleman_actor_impl {
 public:
  LinkActor(caf::actor_config& config, caf::actor broker, LinkActorOptions options)
      : middleman_actor_impl(config, std::move(broker)), options_(std::move(options)) {}
  const char* name() const override { return "LinkActor"; }

 protected:
  caf::expected<io::scribe_ptr> connect(const std::string& host, std::uint16_t port) override {
    auto connection = connect_link(options_.tls, host, port, options_.peer, options_.timeout);
    if (!connection) {
      base::log(base::LogLevel::kInfo, "link_failed", "reason=" + base::log_value(connection.error().client_text));
      return caf::sec::cannot_connect_to_node;
    }
    return io::scribe_ptr(caf::make_counted<LinkScribe>(multiplexer(), std::move(*connection), options_.names));
  }
  caf::expected<io::doorman_ptr> open(std::uint16_t, const char*, bool) override {
    auto signal = options_.listener ? options_.listener->take_signal() : base::Descriptor();
    if (!signal) return caf::sec::cannot_open_port;
    return io::doorman_ptr(caf::make_counted<LinkDoorman>(multiplexer(), signal.release(), options_.listener, options_.names));
  }
  // Datagrams have no TLS here.
  caf::expected<io::datagram_servant_ptr> contact(const std::string&, std::uint16_t) override { return caf::sec::cannot_connect_to_node; }
  caf::expected<io::datagram_servant_ptr> open_udp(std::uint16_t, const char*, bool) override { return caf::sec::cannot_open_port; }

 private:
  network::default_multiplexer& multiplexer() {
    return static_cast<network::default_multiplexer&>(system().middleman().backend());  // the only kind that enable_link() leaves
  }
  LinkActorOptions options_;
};

}  // namespace

void enable_link(caf::actor_system_config& config, std::chrono::milliseconds heartbeat, std::chrono::milliseconds silence) {
  std::signal(SIGPIPE, SIG_IGN);  // OpenSSL writes without MSG_NOSIGNAL
  config.load<io::middleman>();
  config.set("middleman.heartbeat-interval", caf::timespan{heartbeat});
  config.set("middleman.connection-timeout", caf::timespan{silence});
  config.set("middleman.workers", std::size_t{1});
}

void PeerNames::put(const std::string& address, std::vector<std::string> names) {
  const std::lock_guard guard(mutex_);
  names_[address] = std::move(names);
}

void PeerNames::erase(const std::string& address) {
  const std::lock_guard guard(mutex_);
  names_.erase(address);
}

std::vector<std::string> PeerNames::find(const std::string& address) const {
  const std::lock_guard guard(mutex_);
  const auto names = names_.find(address);
  return names == names_.end() ? std::vector<std::string>{} : names->second;
}

caf::actor spawn_link(caf::actor_system& system, LinkActorOptions options) {
  auto broker = system.middleman().named_broker<LinkBroker>(caf::atom("LINK"));
  // A thread of its own: connect() waits for the other side.
  auto link = system.spawn<LinkActor, caf::detached + caf::hidden>(std::move(broker), std::move(options));
  return caf::actor_cast<caf::actor>(link);
}

Status publish_door(caf::actor_system& system, const caf::actor& link, const caf::actor& door) {
  caf::scoped_actor self(system);
  Status status = make_error(ErrorClass::kInternal, ErrorReason::kUnclassified, "the control port cannot be published");
  self->request(link, caf::infinite, caf::publish_atom::value, std::uint16_t{0}, caf::actor_cast<caf::strong_actor_ptr>(door),
                std::set<std::string>{}, std::string(), false)
      .receive([&](std::uint16_t) { status = ok_status(); },
               [&](caf::error& error) { status.error().operator_detail = caf::to_string(error); });
  return status;
}

actors::AskPeerNames peer_names_of(const caf::actor& link, std::shared_ptr<const PeerNames> names) {
  return [link, names](caf::event_based_actor& asker, const caf::actor& peer, std::function<void(const std::vector<std::string>&)> done) {
    asker.request(link, caf::infinite, caf::get_atom::value, peer.node())
        .then([names, done](const caf::node_id&, const std::string& host, std::uint16_t port) { done(names->find(endpoint(host, port))); },
              [done](const caf::error&) { done({}); });
  };
}

}  // namespace troupe::cluster::link
