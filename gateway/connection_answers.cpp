// Connection, the application's side: answers, streams and the WebSocket upgrade. Nothing here destroys the connection: all of it only
// appends to the output and marks the connection dirty. The loop's side is connection.cpp.
#include "gateway/connection.h"
#include "gateway/http_grammar.h"
#include "gateway/server.h"

#include <netinet/tcp.h>
#include <sys/socket.h>

namespace troupe::gateway {

void Connection::write_head(int status, std::string_view type, std::string_view headers) {
  std::string head = "HTTP/1.1 ";
  head += std::to_string(status);
  head += ' ';
  head += http::reason_phrase(status);
  head += "\r\n";
  if (!type.empty()) {
    head += "Content-Type: ";
    head += type;
    head += "\r\n";
  }
  head += "X-Request-Id: ";
  head += record_.id;
  head += "\r\n";
  head += extra_headers_;
  head += headers;
  if (!keep_alive_)
    head += "Connection: close\r\n";
  else if (!http11_)
    head += "Connection: keep-alive\r\n";
  writer_.append(head);
  record_.status = status;
  server_.application().answered(record_.route, status);
}

void Connection::respond(int status, std::string_view type, std::string_view body, std::string_view headers) {
  if (phase_ != Phase::kHttp || !in_flight_ || streaming_) return;
  write_head(status, type, headers);
  if (status != 204) writer_.append("Content-Length: " + std::to_string(body.size()) + "\r\n");
  writer_.append("\r\n");
  if (!head_only_ && status != 204) writer_.append(body);
  finish();
}

void Connection::fail(int status, std::string_view why) {
  if (phase_ != Phase::kHttp) return;
  keep_alive_ = false;
  std::string_view headers;
  if (status == 503) headers = "Retry-After: 1\r\n";
  if (status == 426) headers = "Sec-WebSocket-Version: 13\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n";
  respond(status, "application/json", server_.application().error_body(status, why), headers);
}

void Connection::hold(std::unique_ptr<Exchange> exchange) {
  if (in_flight_ && phase_ == Phase::kHttp) exchange_ = std::move(exchange);
}

void Connection::begin_stream(std::string_view type) {
  if (phase_ != Phase::kHttp || !in_flight_ || streaming_) return;
  if (!http11_) keep_alive_ = false;  // the close ends the body
  write_head(200, type, http11_ ? "Cache-Control: no-store\r\nTransfer-Encoding: chunked\r\n" : "Cache-Control: no-store\r\n");
  writer_.append("\r\n");
  streaming_ = true;
  mark_dirty();
}

void Connection::stream(std::string_view bytes) {
  if (!streaming_ || phase_ != Phase::kHttp) return;
  if (!head_only_) http11_ ? writer_.append_chunk(bytes) : writer_.append(bytes);
  mark_dirty();
}

void Connection::end_stream() {
  if (!streaming_ || phase_ != Phase::kHttp) return;
  if (http11_ && !head_only_) writer_.end_chunks();
  finish();
}

void Connection::finish() {
  retire_exchange(false);
  end_record(AccessRecord::Ending::kWhole);
  in_flight_ = streaming_ = false;
  if (!keep_alive_)
    close_after_ = true;
  else
    deadline_.arm(Deadline::Kind::kIdle, now(), server_.limits().idle_ms);
  mark_dirty();  // run() or on_drained() goes on with pipelined input
}

void Connection::retire_exchange(bool hung_up) {
  if (!exchange_) return;
  retired_.push_back(std::move(exchange_));
  if (hung_up) retired_.back()->hung_up();
}

void Connection::begin_record(const HttpRequest& request) {
  const auto given = given_request_id(request);
  record_ = {};
  record_.id = given.empty() ? server_.new_request_id() : std::string(given);
  record_.method = request.method;
  record_began_ = uv_hrtime();
  record_bytes_ = writer_.appended();
  extra_headers_.clear();
}

void Connection::end_record(AccessRecord::Ending ending) {
  if (record_.id.empty()) return;
  // A WebSocket that said goodbye is whole, though its end is always a closed socket.
  const bool farewell = websocket_ && websocket_->close_received() && ending == AccessRecord::Ending::kHungUp;
  record_.ending = farewell ? AccessRecord::Ending::kWhole : ending;
  record_.peer = peer_ip_;
  record_.bytes = writer_.appended() - record_bytes_;
  record_.ms = static_cast<double>(uv_hrtime() - record_began_) / 1e6;
  server_.application().ended(record_);
  record_ = {};
}

bool Connection::upgrade(const HttpRequest& request, std::string_view protocol, std::unique_ptr<Exchange> exchange) {
  if (request.method != "GET" || request.minor != 1 || request.has_body || !request.has_token("upgrade", "websocket") ||
      !request.has_token("connection", "upgrade")) {
    fail(400, "not a WebSocket handshake");
    return false;
  }
  const auto* version = request.find("sec-websocket-version");
  if (version == nullptr || *version != "13") {
    fail(426, "the WebSocket version must be 13");
    return false;
  }
  const auto* key = request.find("sec-websocket-key");
  std::string accept = request.count("sec-websocket-key") == 1 ? WsSession::accept_key(*key) : std::string();
  if (accept.empty()) {
    fail(400, "malformed Sec-WebSocket-Key");
    return false;
  }
  std::string head = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " + accept;
  head += "\r\nX-Request-Id: " + record_.id;
  if (!protocol.empty()) head.append("\r\nSec-WebSocket-Protocol: ").append(protocol);
  head += "\r\n\r\n";  // extensions are never named, so all are declined
  writer_.append(head);
  record_.status = 101;
  server_.application().answered(record_.route, 101);
  phase_ = Phase::kWebSocket;
  in_flight_ = false;
  deadline_.clear();
  exchange_ = std::move(exchange);
  WsSession::Hooks hooks;
  hooks.write = [this](std::string_view bytes) {
    writer_.append(bytes);
    mark_dirty();
  };
  hooks.message = [this](WsOpcode opcode, std::string&& message) {
    if (exchange_) exchange_->message(opcode, std::move(message));
  };
  websocket_ = std::make_unique<WsSession>(server_.limits().ws_message, std::move(hooks));
  // Little may wait unsent inside the kernel, where no pong gets in front of it.
  int unsent = static_cast<int>(server_.limits().stream_ahead);
  int socket = -1;
  if (uv_fileno(reinterpret_cast<uv_handle_t*>(&socket_), &socket) == 0)
    setsockopt(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
  mark_dirty();
  return true;
}

void Connection::send(WsOpcode opcode, std::string_view data) {
  if (phase_ == Phase::kWebSocket) websocket_->send(opcode, data);
}

void Connection::close_websocket(std::uint16_t code, std::string_view why) {
  if (phase_ != Phase::kWebSocket) return;
  websocket_->close(code, why);
  mark_dirty();  // flush() goes on from there
}

void Connection::websocket_progress() {
  if (phase_ != Phase::kWebSocket) return;
  if (websocket_->close_sent() && deadline_.kind() != Deadline::Kind::kWsClose) {
    retire_exchange(true);
    deadline_.arm(Deadline::Kind::kWsClose, now(), server_.limits().ws_close_ms);
  }
  if (websocket_->finished() && !close_after_) {
    retire_exchange(true);
    close_after_ = true;
    mark_dirty();
  }
}

}  // namespace troupe::gateway
