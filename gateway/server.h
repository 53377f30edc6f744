// Server: the loop thread. Listeners, connections by id, the bridge from other threads, the tick, signals, drain.
// Created and listening on any one thread; run() makes its caller the loop thread. Invariants: no connection pointer leaves the
// loop thread; after a drain every handle was closed and the loop with it.
#pragma once
#include "gateway/connection.h"
#include "messages/error.h"

#include <uv.h>

#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace troupe::gateway {

class Server {
 public:
  /// `application` must outlive the server.
  Server(const Limits& limits, Application& application);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// `host`: an IPv4 or IPv6 address, or "localhost" (127.0.0.1). Port 0 = any free one.
  Status listen(const std::string& host, std::uint16_t port);
  /// Of connections accepted from now on; null = plain TCP. Before run(), or on the loop thread.
  void use_tls(std::shared_ptr<TlsContext> tls) { tls_ = std::move(tls); }
  /// Port of the first listener.
  std::uint16_t port() const { return port_; }
  /// SIGTERM and SIGINT call `handler` on the loop thread. Before run().
  void on_signals(std::function<void()> handler);
  /// SIGHUP calls `handler` on the loop thread. Before run().
  void on_hangup(std::function<void()> handler);
  /// Blocks until a drain has ended.
  void run();

  // Any thread.
  /// Runs `task` on the loop thread, in order; dropped when the loop has ended.
  void post(std::function<void()> task);

  // Loop thread.
  void drain(unsigned grace_ms);
  bool draining() const { return draining_; }
  std::uint64_t now() const { return uv_now(&loop_); }
  const Limits& limits() const { return limits_; }
  Application& application() { return application_; }
  std::size_t connections() const { return connections_.size(); }

 private:
  friend class Connection;
  struct Listener {
    uv_tcp_t socket{};
    Server* server = nullptr;
  };
  // For connections.
  std::span<char> read_buffer() { return read_buffer_; }
  std::string new_request_id() { return request_ids_.next(); }
  void add_dirty(Connection* connection) { dirty_.push_back(connection); }
  void forget(Connection* connection);

  void accept(uv_stream_t* listener);
  void start_tick();
  void run_tasks();
  void tick();
  void flush_dirty();
  /// Cuts the connections that hold most until all together hold no more than they may.
  void shed();
  void maybe_stop();
  void close_handles();
  std::vector<Connection*> all_connections() const;

  const Limits limits_;
  Application& application_;
  uv_loop_t loop_{};
  uv_async_t async_{};
  uv_prepare_t prepare_{};
  uv_timer_t timer_{};
  uv_signal_t signals_[3]{};
  std::function<void()> on_signal_;
  std::function<void()> on_hangup_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::shared_ptr<TlsContext> tls_;
  std::unordered_map<std::uint64_t, Connection*> connections_;
  std::unordered_map<std::string, std::size_t> per_group_;  // connections by Connection::peer_group_
  std::vector<Connection*> dirty_;                          // have output for the end of this loop turn
  std::mutex mutex_;
  std::vector<std::function<void()>> tasks_;  // guarded by mutex_
  bool closed_ = false;                       // guarded by mutex_
  std::vector<char> read_buffer_;             // one for all: consumed or copied within the read callback
  RequestIds request_ids_;
  std::uint64_t next_id_ = 1;
  std::uint64_t last_tick_ = 0;  // loop time
  std::uint64_t drain_at_ = 0;   // of a drain: the end of the grace, then of the time to take the terminal errors
  std::uint64_t settle_at_ = 0;  // of a drain: idle connections are closed; then 0
  std::uint32_t cut_ = 0;
  std::uint16_t port_ = 0;
  bool draining_ = false;
  bool cutting_ = false;
  bool tick_skipped_ = false;
  bool stopped_ = false;
};

}  // namespace troupe::gateway
