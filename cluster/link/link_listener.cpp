#include "cluster/link/link_listener.h"

#include "cluster/link/link_socket.h"
#include "messages/error_reasons.h"
#include "runtime/base/log.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace troupe::cluster::link {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kTickMs = 100;         // how late a time-out may be noticed
constexpr unsigned kMostLines = 20;  // of refusals, a second: a stranger must not fill the log's disk

Error not_connected(const std::string& host, std::uint16_t port, const std::string& why) {
  return make_error(ErrorClass::kUnavailable, ErrorReason::kGroupLost, "no link to " + host + ":" + std::to_string(port) + ": " + why);
}

}  // namespace

Result<std::shared_ptr<LinkListener>> LinkListener::open(const std::string& host, std::uint16_t port, LinkTls tls, LinkLimits limits) {
  const auto fail = [&](const std::string& why) {
    return make_error(ErrorClass::kInvalidRequest, ErrorReason::kAddressInUse,
                      "the control port " + host + ":" + std::to_string(port) + " cannot be opened: " + why, "control_address");
  };
  std::shared_ptr<LinkListener> listener(new LinkListener(std::move(tls), limits));
  auto socket = listening_socket(host, port);
  if (!socket) return fail(socket.error().client_text);
  listener->socket_ = std::move(*socket);
  listener->port_ = local_port(listener->socket_.get());
  for (auto* pair : {&listener->signal_, &listener->stop_}) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) return fail(std::strerror(errno));
    (*pair)[0] = base::Descriptor(ends[0]);
    (*pair)[1] = base::Descriptor(ends[1]);
  }
  listener->thread_ = std::thread([raw = listener.get()] { raw->run(); });
  return listener;
}

LinkListener::~LinkListener() {
  stop_[1].reset();
  if (thread_.joinable()) thread_.join();
}

std::optional<LinkConnection> LinkListener::take() {
  const std::lock_guard guard(mutex_);
  if (ready_.empty()) return std::nullopt;
  auto connection = std::move(ready_.front());
  ready_.pop_front();
  return connection;
}

void LinkListener::log_refused(const LinkConnection& connection, const std::string& reason) {
  const auto now = Clock::now();
  if (now - log_second_ >= std::chrono::seconds(1)) {
    if (logged_ > kMostLines) base::log(base::LogLevel::kWarning, "link_refused", "others=" + std::to_string(logged_ - kMostLines));
    log_second_ = now;
    logged_ = 0;
  }
  if (++logged_ <= kMostLines)
    base::log(base::LogLevel::kWarning, "link_refused", "peer=" + connection.address + " reason=" + base::log_value(reason));
}

void LinkListener::run() {
  std::vector<pollfd> polled;
  for (;;) {
    polled.assign({{stop_[0].get(), POLLIN, 0}, {socket_.get(), POLLIN, 0}});
    for (const auto& each : handshakes_)
      polled.push_back({each.connection.socket.get(), static_cast<short>(each.wants_write ? POLLOUT : POLLIN), 0});
    ::poll(polled.data(), polled.size(), handshakes_.empty() ? -1 : kTickMs);
    if (polled[0].revents != 0) return;
    std::size_t index = 2;
    std::erase_if(handshakes_, [&](Handshake& each) {
      const bool stirred = polled[index++].revents != 0;
      if (stirred && !go_on(each)) return true;
      if (Clock::now() < each.deadline) return false;
      log_refused(each.connection, "no handshake within " + std::to_string(limits_.handshake.count()) + " ms");
      return true;
    });
    if (polled[1].revents != 0) accept_all();
  }
}

void LinkListener::accept_all() {
  for (;;) {
    base::Descriptor socket(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) {
      // Out of descriptors: the port stays readable, and a busy loop would help nobody.
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
        std::this_thread::sleep_for(std::chrono::milliseconds(kTickMs));
      return;
    }
    if (handshakes_.size() >= limits_.handshakes) {
      log_refused(handshakes_.front().connection, "too many handshakes under way");
      handshakes_.erase(handshakes_.begin());
    }
    Handshake handshake;
    handshake.connection.address = peer_address(socket.get());
    handshake.connection.session = tls_.accept(socket.get());
    handshake.connection.socket = std::move(socket);
    handshake.deadline = Clock::now() + limits_.handshake;
    if (go_on(handshake)) handshakes_.push_back(std::move(handshake));
  }
}

/// False: it has ended, well or not.
bool LinkListener::go_on(Handshake& handshake) {
  auto& connection = handshake.connection;
  const auto state = connection.session->handshake();
  if (state == LinkSession::State::kWantRead || state == LinkSession::State::kWantWrite) {
    handshake.wants_write = state == LinkSession::State::kWantWrite;
    return true;
  }
  if (state == LinkSession::State::kFailed) {
    log_refused(connection, connection.session->reason());
    return false;
  }
  connection.peer_names = connection.session->peer_names();
  {
    const std::lock_guard guard(mutex_);
    if (ready_.size() >= limits_.handshakes) {
      log_refused(connection, "too many connections wait to be taken");
      return false;
    }
    ready_.push_back(std::move(connection));
  }
  ::send(signal_[1].get(), "", 1, MSG_NOSIGNAL);
  return false;
}

Result<LinkConnection> connect_link(const LinkTls& tls, const std::string& host, std::uint16_t port, const std::string& peer,
                                    std::chrono::milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  auto socket = connected_socket(host, port, deadline);
  if (!socket) return not_connected(host, port, socket.error().client_text);
  LinkConnection out;
  out.address = host + ":" + std::to_string(port);
  out.session = tls.connect(socket->get());
  out.socket = std::move(*socket);
  for (;;) {
    const auto state = out.session->handshake();
    if (state == LinkSession::State::kOk) break;
    if (state == LinkSession::State::kFailed) return not_connected(host, port, out.session->reason());
    if (!wait_for(out.socket.get(), state == LinkSession::State::kWantWrite, deadline))
      return not_connected(host, port, "no handshake in time");
  }
  out.peer_names = out.session->peer_names();
  if (std::find(out.peer_names.begin(), out.peer_names.end(), peer) == out.peer_names.end())
    return not_connected(host, port, "its certificate does not name " + peer);
  return out;
}

}  // namespace troupe::cluster::link
