// See server.h.
#include "gateway/server.h"

#include "messages/error_reasons.h"
#include "runtime/base/log.h"

#include <algorithm>
#include <csignal>
#include <utility>

namespace troupe::gateway {
namespace {

constexpr std::size_t kReadBuffer = 64 << 10;
constexpr int kBacklog = 1024;
constexpr unsigned kTickMs = 250;
constexpr std::uint64_t kPauseMs = 1000;  // between two ticks: the process did not run
constexpr std::uint64_t kSettleMs = 500;  // after drain(): requests that are on their way to idle connections come and are refused in words
constexpr int kFlushRounds = 16;

template <class Handle>
uv_handle_t* as_handle(Handle* handle) {
  return reinterpret_cast<uv_handle_t*>(handle);
}

bool parse_address(const std::string& host, std::uint16_t port, sockaddr_storage* address) {
  const std::string& text = host == "localhost" ? std::string("127.0.0.1") : host;
  if (uv_ip4_addr(text.c_str(), port, reinterpret_cast<sockaddr_in*>(address)) == 0) return true;
  return uv_ip6_addr(text.c_str(), port, reinterpret_cast<sockaddr_in6*>(address)) == 0;
}

std::string address_text(const sockaddr_storage& address) {
  char text[64] = "";
  if (address.ss_family == AF_INET) {
    uv_ip4_name(reinterpret_cast<const sockaddr_in*>(&address), text, sizeof text);
    return text;
  }
  uv_ip6_name(reinterpret_cast<const sockaddr_in6*>(&address), text, sizeof text);
  constexpr std::string_view kMapped = "::ffff:";  // IPv4 over a listener on ::
  std::string_view all = text;
  return std::string(all.substr(0, kMapped.size()) == kMapped && all.find('.') != all.npos ? all.substr(kMapped.size()) : all);
}

/// Whose connections are counted together: an IPv4 address, or the /64 that one IPv6 subscriber has.
std::string address_group(const sockaddr_storage& address) {
  if (address.ss_family != AF_INET6) return address_text(address);
  sockaddr_storage copy = address;
  auto* bytes = reinterpret_cast<sockaddr_in6*>(&copy)->sin6_addr.s6_addr;
  const bool mapped = IN6_IS_ADDR_V4MAPPED(&reinterpret_cast<const sockaddr_in6*>(&address)->sin6_addr);
  if (!mapped) std::fill(bytes + 8, bytes + 16, std::uint8_t{0});
  return address_text(copy) + (mapped ? "" : "/64");
}

std::uint16_t port_of(const sockaddr_storage& address) {
  return ntohs(address.ss_family == AF_INET ? reinterpret_cast<const sockaddr_in*>(&address)->sin_port
                                            : reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port);
}

}  // namespace

Server::Server(const Limits& limits, Application& application) : limits_(limits), application_(application), read_buffer_(kReadBuffer) {
  std::signal(SIGPIPE, SIG_IGN);  // libuv writes without MSG_NOSIGNAL
  TROUPE_CHECK(uv_loop_init(&loop_) == 0);
  uv_async_init(&loop_, &async_, [](uv_async_t* handle) { static_cast<Server*>(handle->data)->run_tasks(); });
  uv_prepare_init(&loop_, &prepare_);
  uv_timer_init(&loop_, &timer_);
  async_.data = prepare_.data = timer_.data = this;
  for (auto& signal : signals_) {
    uv_signal_init(&loop_, &signal);
    signal.data = this;
  }
  uv_prepare_start(&prepare_, [](uv_prepare_t* handle) { static_cast<Server*>(handle->data)->flush_dirty(); });
}

Server::~Server() {
  for (auto* connection : all_connections()) connection->destroy();
  close_handles();
  uv_run(&loop_, UV_RUN_DEFAULT);  // closing callbacks only
  uv_loop_close(&loop_);
}

Status Server::listen(const std::string& host, std::uint16_t port) {
  sockaddr_storage address{};
  if (!parse_address(host, port, &address))
    return make_error(ErrorClass::kInvalidRequest, ErrorReason::kBadConfig,
                      "cannot listen on '" + host + "': give an IPv4 or IPv6 address, e.g. 127.0.0.1, 0.0.0.0 or ::1", "host");
  auto listener = std::make_unique<Listener>();
  listener->server = this;
  listener->socket.data = listener.get();
  uv_tcp_init(&loop_, &listener->socket);
  auto& socket = listener->socket;
  listeners_.push_back(std::move(listener));  // from here on closed with the others, whatever happens
  int result = uv_tcp_bind(&socket, reinterpret_cast<sockaddr*>(&address), 0);
  if (result == 0)
    result = uv_listen(reinterpret_cast<uv_stream_t*>(&socket), kBacklog, [](uv_stream_t* stream, int status) {
      if (status == 0) static_cast<Listener*>(stream->data)->server->accept(stream);
    });
  if (result != 0) {
    std::string where = host + " port " + std::to_string(port);
    if (result == UV_EADDRINUSE)
      return make_error(ErrorClass::kUnavailable, ErrorReason::kAddressInUse,
                        where + " is in use: stop the other program or choose another port", "port");
    return make_error(ErrorClass::kInvalidRequest, ErrorReason::kBadConfig,
                      "cannot listen on " + where + ": " + uv_strerror(result) + "; choose another host or port", "host");
  }
  if (port_ == 0) {
    sockaddr_storage bound{};
    int size = sizeof bound;
    uv_tcp_getsockname(&socket, reinterpret_cast<sockaddr*>(&bound), &size);
    port_ = port_of(bound);
  }
  return ok_status();
}

void Server::on_signals(std::function<void()> handler) {
  on_signal_ = std::move(handler);
  auto callback = [](uv_signal_t* handle, int) { static_cast<Server*>(handle->data)->on_signal_(); };
  uv_signal_start(&signals_[0], callback, SIGTERM);
  uv_signal_start(&signals_[1], callback, SIGINT);
}

void Server::on_hangup(std::function<void()> handler) {
  on_hangup_ = std::move(handler);
  uv_signal_start(
      &signals_[2], [](uv_signal_t* handle, int) { static_cast<Server*>(handle->data)->on_hangup_(); }, SIGHUP);
}

void Server::accept(uv_stream_t* listener) {
  auto* connection = new Connection(*this, next_id_++, tls_ ? tls_->accept() : nullptr);
  uv_tcp_init(&loop_, &connection->socket_);
  connections_[connection->id_] = connection;
  bool accepted = uv_accept(listener, connection->stream_handle()) == 0;
  sockaddr_storage peer{};
  int size = sizeof peer;
  if (accepted && uv_tcp_getpeername(&connection->socket_, reinterpret_cast<sockaddr*>(&peer), &size) == 0)
    connection->peer_ip_ = address_text(peer), connection->peer_group_ = address_group(peer);
  std::size_t from_peer = ++per_group_[connection->peer_group_];
  if (!accepted) return connection->destroy();
  if (connections_.size() > limits_.connections || from_peer > limits_.connections_per_ip) {
    application_.connection_refused(connection->peer_group_);
    return connection->destroy();
  }
  if (connections_.size() == 1) start_tick();
  application_.connections_changed(connections_.size());
  connection->start();
}

void Server::start_tick() {
  uv_update_time(&loop_);
  last_tick_ = now();
  unsigned period = std::max(1u, std::min({kTickMs, limits_.head_ms, limits_.idle_ms}));
  uv_timer_start(
      &timer_, [](uv_timer_t* handle) { static_cast<Server*>(handle->data)->tick(); }, period, period);
}

void Server::post(std::function<void()> task) {
  std::lock_guard lock(mutex_);
  if (closed_) return;
  bool wake = tasks_.empty();
  tasks_.push_back(std::move(task));
  if (wake) uv_async_send(&async_);  // under the lock: the handle cannot be closed meanwhile
}

void Server::run_tasks() {
  std::vector<std::function<void()>> tasks;
  {
    std::lock_guard lock(mutex_);
    tasks.swap(tasks_);
  }
  for (auto& task : tasks) task();
}

void Server::flush_dirty() {
  // Flushing may make others dirty; then go round again, but not for ever.
  for (int round = 0; !dirty_.empty() && round < kFlushRounds; round++) {
    std::vector<Connection*> dirty;
    dirty.swap(dirty_);
    for (auto* connection : dirty) connection->dirty_ = false;
    for (auto* connection : dirty) connection->flush();  // destroyed ones are still allocated: freed after poll
  }
  if (!dirty_.empty()) uv_async_send(&async_);  // do not sleep in poll with work left
}

std::vector<Connection*> Server::all_connections() const {
  std::vector<Connection*> all;
  all.reserve(connections_.size());
  for (const auto& [id, connection] : connections_) all.push_back(connection);
  return all;
}

void Server::tick() {
  std::uint64_t time = now();
  // After a pause of the whole process what came meanwhile is read first: the clients were not late. Only once in a row: a loop that
  // is always late must keep its deadlines, and end a drain, all the same.
  const bool late = std::exchange(last_tick_, time) + kPauseMs < time;
  if (late && !std::exchange(tick_skipped_, true)) return;
  tick_skipped_ = late && tick_skipped_;
  application_.tick();
  if (connections_.empty() && !application_.wants_ticks()) {  // an idle server sleeps
    uv_timer_stop(&timer_);
    return;
  }
  auto all = all_connections();
  for (auto* connection : all)
    if (connection->phase_ != Connection::Phase::kClosed) connection->tick(time);
  shed();
  if (!draining_) return;
  if (settle_at_ != 0 && time >= std::min(settle_at_, drain_at_)) {
    settle_at_ = 0;
    for (auto* connection : all)
      if (connection->phase_ != Connection::Phase::kClosed) connection->close_if_idle();
  }
  if (time < drain_at_) return;
  if (!cutting_) {  // first the terminal errors, with a little time to take them
    cutting_ = true;
    drain_at_ = time + limits_.drain_cut_ms;
    for (auto* connection : all)
      if (connection->phase_ != Connection::Phase::kClosed && connection->cut_short()) cut_++;
    return;
  }
  for (auto* connection : all) connection->destroy();
}

void Server::shed() {
  std::size_t held = 0;
  for (const auto& [id, connection] : connections_) held += connection->held();
  if (held <= limits_.held) return;
  auto all = all_connections();
  std::sort(all.begin(), all.end(), [](const auto* a, const auto* b) { return a->held() > b->held(); });
  std::size_t cut = 0;
  for (; cut < all.size() && held > limits_.held; cut++) {
    held -= all[cut]->held();
    all[cut]->destroy(AccessRecord::Ending::kMemory);
  }
  base::log(base::LogLevel::kWarning, "connections_cut",
            "why=memory count=" + std::to_string(cut) + " limit=" + std::to_string(limits_.held));
}

void Server::forget(Connection* connection) {
  connections_.erase(connection->id_);
  std::erase(dirty_, connection);
  if (auto entry = per_group_.find(connection->peer_group_); entry != per_group_.end() && --entry->second == 0) per_group_.erase(entry);
  application_.connections_changed(connections_.size());
  maybe_stop();
}

void Server::drain(unsigned grace_ms) {
  std::uint64_t deadline = now() + grace_ms;
  if (draining_) {
    if (!cutting_) drain_at_ = std::min(drain_at_, deadline);
    return;
  }
  draining_ = true;
  drain_at_ = deadline;
  settle_at_ = now() + kSettleMs;
  maybe_stop();
}

void Server::maybe_stop() {
  if (!draining_ || stopped_ || !connections_.empty()) return;
  application_.drained(cut_);
  close_handles();
}

void Server::close_handles() {
  if (stopped_) return;
  stopped_ = true;
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
    tasks_.clear();
  }
  for (auto& listener : listeners_) uv_close(as_handle(&listener->socket), nullptr);
  uv_close(as_handle(&async_), nullptr);
  uv_close(as_handle(&prepare_), nullptr);
  uv_close(as_handle(&timer_), nullptr);
  for (auto& signal : signals_) uv_close(as_handle(&signal), nullptr);
}

void Server::run() { uv_run(&loop_, UV_RUN_DEFAULT); }

}  // namespace troupe::gateway
