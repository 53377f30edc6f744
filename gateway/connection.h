// Connection: one socket on the loop thread: read -> parse -> one request in flight -> bounded, coalescing writer.
// http (reading <-> in flight) -> websocket, either -> linger (FIN sent, input dropped) -> closed. Owned by its Server, deleted in
// the uv_close callback. Invariants: input behind a request in flight waits unparsed, so answers keep the order of their
// requests; nothing but the Server holds a pointer to it beyond a call; an Exchange hears hung_up() at most once.
#pragma once
#include "gateway/deadline.h"
#include "gateway/exchange.h"
#include "gateway/http_reader.h"
#include "gateway/tls.h"
#include "gateway/writer.h"
#include "gateway/ws_session.h"

#include <uv.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::gateway {

class Server;

class Connection {
 public:
  Connection(Server& server, std::uint64_t id, std::unique_ptr<Tls> tls);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  std::uint64_t id() const { return id_; }
  Server& server() { return server_; }

  // For the application, while its request is in flight. All only append to the output: none destroys the connection.
  /// Label of the request in metrics; static text.
  void set_route(std::string_view route) { record_.route = route; }
  /// Of the caller's key, for the access log.
  void set_key_name(std::string name) { record_.key = std::move(name); }
  /// Header lines, each with its CRLF, for the answer to come.
  void add_headers(std::string_view lines) { extra_headers_ += lines; }
  void respond(int status, std::string_view type, std::string_view body, std::string_view headers = {});
  /// An error of the protocol itself: answers with Application::error_body() and closes.
  void fail(int status, std::string_view why);
  /// The answer comes later, from `exchange`.
  void hold(std::unique_ptr<Exchange> exchange);
  /// Status 200 and a body of unknown length: chunked for HTTP/1.1, ended by the close for 1.0.
  void begin_stream(std::string_view type);
  void stream(std::string_view bytes);
  /// Whether a stream that can wait should go on writing; if not, writable() says when.
  bool has_room() const;
  void end_stream();
  /// Answers a WebSocket handshake; false (and an error is answered) if it is none. `protocol` is the subprotocol to name, or empty.
  bool upgrade(const HttpRequest& request, std::string_view protocol, std::unique_ptr<Exchange> exchange);
  void send_text(std::string_view text) { send(WsOpcode::kText, text); }
  void send(WsOpcode opcode, std::string_view data);
  void close_websocket(std::uint16_t code, std::string_view why);

 private:
  friend class Server;
  enum class Phase { kHttp, kWebSocket, kLinger, kClosed };

  // Called by the server.
  void start();
  void tick(std::uint64_t now);
  void flush();
  void close_if_idle();
  /// Bytes that came and wait, and those that wait to leave.
  std::size_t held() const;
  bool cut_short();
  void destroy(AccessRecord::Ending ending = AccessRecord::Ending::kHungUp);

  // Reading.
  void on_read(ssize_t count, const char* bytes);
  void on_eof();
  void input(std::string_view bytes);
  void resume_input();
  void run(std::string_view& bytes);
  bool run_http(std::string_view& bytes);
  void run_websocket(std::string_view& bytes);
  void dispatch();
  bool refused_by_head();
  void update_reading();

  // Answering and writing.
  void write_head(int status, std::string_view type, std::string_view headers);
  void finish();
  void retire_exchange(bool hung_up);
  void begin_record(const HttpRequest& request);
  void end_record(AccessRecord::Ending ending);
  void websocket_progress();
  void mark_dirty();
  void on_written(bool ok);
  void on_drained();
  void begin_linger();
  bool over_high_water() const;
  uv_stream_t* stream_handle() { return reinterpret_cast<uv_stream_t*>(&socket_); }
  std::uint64_t now() const;

  Server& server_;
  const std::uint64_t id_;
  uv_tcp_t socket_{};
  uv_shutdown_t shutdown_{};
  std::unique_ptr<Tls> tls_;
  Writer writer_;
  std::unique_ptr<HttpReader> reader_;
  std::unique_ptr<WsSession> websocket_;
  std::unique_ptr<Exchange> exchange_;
  std::vector<std::unique_ptr<Exchange>> retired_;  // ended, but perhaps on the call stack: freed at the next flush
  std::string held_input_;                          // came behind a request in flight
  std::string peer_ip_;                             // as told in logs
  std::string peer_group_;                          // whose connections are counted together
  std::string extra_headers_;
  AccessRecord record_;             // of the request in flight, or of the WebSocket
  std::uint64_t record_began_ = 0;  // ns
  std::uint64_t record_bytes_ = 0;  // of the output when it began
  Deadline deadline_;
  Phase phase_ = Phase::kHttp;
  std::uint64_t heard_ = 0;      // loop time of the last byte from the peer
  std::uint64_t body_mark_ = 0;  // body bytes when the body deadline was last armed
  std::size_t dropped_ = 0;      // bytes read and dropped in linger
  bool in_flight_ = false;
  bool running_ = false;  // run() is on the stack
  bool dirty_ = false;    // on the server's dirty list
  bool reading_ = false;
  bool close_after_ = false;  // close once all output is out
  bool got_eof_ = false;
  bool admitted_ = false;  // by its head: the body is read on
  bool pinged_ = false;
  // Of the request in flight:
  bool streaming_ = false;
  bool http11_ = true;
  bool head_only_ = false;
  bool keep_alive_ = true;
};

}  // namespace troupe::gateway
