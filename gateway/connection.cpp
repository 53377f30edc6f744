// Connection, the loop's side: reading, flushing, deadlines, end; the answers are in connection_answers.cpp. Functions that may call
// destroy() are those the loop calls (on_read, tick, flush, on_written); after one of them the object is still allocated, but phase_ is
// kClosed.
#include "gateway/connection.h"

#include "gateway/server.h"

#include <algorithm>

namespace troupe::gateway {
namespace {

constexpr std::size_t kMaxDropped = 1 << 20;  // bytes a lingering peer may still send
constexpr std::uint16_t kGoingAway = 1001;

}  // namespace

Connection::Connection(Server& server, std::uint64_t id, std::unique_ptr<Tls> tls)
    : server_(server),
      id_(id),
      tls_(std::move(tls)),
      writer_(socket_, [this](bool ok) { on_written(ok); }),
      reader_(std::make_unique<HttpReader>(server.limits())) {
  writer_.use_tls(tls_.get());
  socket_.data = this;
}

std::uint64_t Connection::now() const { return server_.now(); }

bool Connection::over_high_water() const { return writer_.queued() > server_.limits().out_high; }

std::size_t Connection::held() const {
  return reader_->request.body.capacity() + held_input_.capacity() + writer_.queued() + (websocket_ ? websocket_->held() : 0);
}

bool Connection::has_room() const { return writer_.queued() <= server_.limits().stream_ahead; }

void Connection::start() {
  uv_tcp_nodelay(&socket_, 1);
  heard_ = now();
  writer_.mark_progress(now());
  deadline_.arm(Deadline::Kind::kIdle, now(), server_.limits().head_ms);
  update_reading();
}

// ---- reading

void Connection::update_reading() {
  if (phase_ == Phase::kClosed || got_eof_) return;
  bool room = held_input_.size() <= server_.limits().pipeline && !over_high_water();
  bool want = phase_ == Phase::kLinger || room;
  if (want == reading_) return;
  reading_ = want;
  if (!want) {
    uv_read_stop(stream_handle());
    return;
  }
  uv_read_start(
      stream_handle(),
      [](uv_handle_t* handle, std::size_t, uv_buf_t* buffer) {
        auto space = static_cast<Connection*>(handle->data)->server_.read_buffer();
        *buffer = uv_buf_init(space.data(), static_cast<unsigned>(space.size()));
      },
      [](uv_stream_t* stream, ssize_t count, const uv_buf_t* buffer) {
        static_cast<Connection*>(stream->data)->on_read(count, buffer->base);
      });
}

void Connection::on_read(ssize_t count, const char* bytes) {
  if (count == 0) return;
  if (count < 0) return count == UV_EOF ? on_eof() : destroy();
  heard_ = now();
  std::string_view wire(bytes, static_cast<std::size_t>(count));
  if (!tls_) {
    input(wire);
    return update_reading();
  }
  std::string plain;
  auto state = tls_->read(wire, plain);
  mark_dirty();  // handshake bytes and alerts
  if (!plain.empty()) input(plain);
  if (phase_ == Phase::kClosed) return;
  switch (state) {
    case Tls::State::kOk: return update_reading();
    case Tls::State::kClosed: return on_eof();
    case Tls::State::kFailed:
      flush();  // the alert goes out if the socket takes it
      return destroy();
  }
}

void Connection::on_eof() {
  if (phase_ == Phase::kClosed) return;
  got_eof_ = true;
  reading_ = false;
  uv_read_stop(stream_handle());
  // A half-close with a request in flight counts as gone: a client that wants the answer keeps its side open. With only bytes
  // left to write, they are written.
  if (in_flight_ || phase_ != Phase::kHttp || writer_.queued() == 0) return destroy();
  close_after_ = true;
  mark_dirty();
}

void Connection::input(std::string_view bytes) {
  if (phase_ == Phase::kLinger) {
    dropped_ += bytes.size();
    if (dropped_ > kMaxDropped) destroy();
    return;
  }
  if (held_input_.empty()) {
    run(bytes);
    if (phase_ != Phase::kClosed) held_input_.assign(bytes);
    return;
  }
  held_input_.append(bytes);
  if (!running_) resume_input();
}

void Connection::resume_input() {
  std::string held;
  held.swap(held_input_);
  std::string_view bytes = held;
  run(bytes);
  if (phase_ != Phase::kClosed) held_input_.insert(0, bytes);
}

void Connection::run(std::string_view& bytes) {
  running_ = true;
  while (!bytes.empty() && phase_ == Phase::kHttp && !in_flight_ && !close_after_ && !over_high_water())
    if (!run_http(bytes)) break;
  if (close_after_ || phase_ == Phase::kLinger) bytes = {};  // nothing behind a last request is looked at
  if (phase_ == Phase::kWebSocket) run_websocket(bytes);
  running_ = false;
}

bool Connection::run_http(std::string_view& bytes) {
  const auto& limits = server_.limits();
  switch (reader_->feed(bytes)) {
    case HttpReader::Result::kError:
      in_flight_ = true;
      http11_ = true;
      head_only_ = false;
      begin_record(reader_->request);
      fail(reader_->status(), reader_->reason());
      return false;
    case HttpReader::Result::kComplete: dispatch(); return true;
    case HttpReader::Result::kHead:
      body_mark_ = 0;
      admitted_ = false;
      deadline_.arm(Deadline::Kind::kBody, now(), limits.body_ms);
      // Only now: the answers of earlier requests are out, so the order holds.
      if (reader_->request.expect_continue && bytes.empty()) {
        if (refused_by_head()) return false;
        writer_.append("HTTP/1.1 100 Continue\r\n\r\n");
        mark_dirty();
      }
      return true;
    case HttpReader::Result::kMore: break;
  }
  if (reader_->in_body()) {
    if (reader_->body_seen() - body_mark_ >= limits.body_step) {
      if (!admitted_ && refused_by_head()) return false;
      body_mark_ = reader_->body_seen();
      deadline_.arm(Deadline::Kind::kBody, now(), limits.body_ms);
    }
  } else if (reader_->started() && deadline_.kind() != Deadline::Kind::kHead) {
    deadline_.arm(Deadline::Kind::kHead, now(), limits.head_ms);  // absolute: dripping does not help
  }
  return true;
}

void Connection::run_websocket(std::string_view& bytes) {
  if (over_high_water() || bytes.empty()) return;
  auto part = bytes;
  bytes = {};
  pinged_ = false;
  websocket_->feed(part);
  websocket_progress();
}

// Of a stranger no more than a first piece of a body is kept.
bool Connection::refused_by_head() {
  const auto& request = reader_->request;
  in_flight_ = true;
  keep_alive_ = false;  // a refusal leaves the rest of the body unread
  head_only_ = request.method == "HEAD";
  http11_ = request.minor == 1;
  begin_record(request);
  admitted_ = server_.application().admits(*this, request);
  if (!admitted_) return true;
  record_ = {};  // it begins anew with the whole request
  in_flight_ = false;
  return false;
}

void Connection::dispatch() {
  in_flight_ = true;
  deadline_.clear();
  HttpRequest request = std::move(reader_->request);
  reader_->reset();
  keep_alive_ = request.keep_alive && !server_.draining();
  head_only_ = request.method == "HEAD";
  http11_ = request.minor == 1;
  begin_record(request);
  server_.application().request(*this, std::move(request));
}

// ---- writing

void Connection::mark_dirty() {
  if (dirty_ || phase_ == Phase::kClosed) return;
  dirty_ = true;
  server_.add_dirty(this);
}

void Connection::flush() {
  if (phase_ == Phase::kClosed) return;
  retired_.clear();
  websocket_progress();
  switch (writer_.flush(now())) {
    case Writer::Flushed::kFailed: return destroy();
    case Writer::Flushed::kSome: return update_reading();
    case Writer::Flushed::kAll: return on_drained();
  }
}

void Connection::on_written(bool ok) {
  if (phase_ == Phase::kClosed) return;
  if (!ok) return destroy();
  writer_.mark_progress(now());
  mark_dirty();
}

void Connection::on_drained() {
  if (writer_.queued() == 0 && close_after_ && phase_ != Phase::kLinger) return begin_linger();
  if (exchange_ && writer_.queued() <= server_.limits().out_low) exchange_->writable();
  if (!held_input_.empty() && !in_flight_ && !running_ && phase_ != Phase::kLinger && !over_high_water()) resume_input();
  update_reading();
}

void Connection::begin_linger() {  // FIN, then drop input for a while: closing at once sends RST, and that would eat our answer
  if (got_eof_) return destroy();
  if (tls_ && tls_->ready()) {
    tls_->shutdown();
    writer_.flush_tls_end();
  }
  phase_ = Phase::kLinger;
  held_input_.clear();
  uv_shutdown(&shutdown_, stream_handle(), [](uv_shutdown_t*, int) {});
  deadline_.arm(Deadline::Kind::kLinger, now(), server_.limits().linger_ms);
  update_reading();
}

// ---- time and end

void Connection::tick(std::uint64_t time) {
  const auto& limits = server_.limits();
  writer_.observe(time);
  if (writer_.waiting() && time - writer_.progress() > limits.stall_ms) return destroy(AccessRecord::Ending::kSlowReader);
  // Who is not listened to cannot be heard, and a ping waits behind output that waits: then the slow-reader rule alone counts.
  if (!reading_ || writer_.waiting()) {
    heard_ = time;
    pinged_ = false;
  }
  if (phase_ == Phase::kWebSocket && deadline_.kind() == Deadline::Kind::kNone && limits.ws_ping_ms > 0) {
    std::uint64_t silence = time - heard_;
    if (silence > 2 * limits.ws_ping_ms && pinged_) return destroy();
    if (silence > limits.ws_ping_ms && !pinged_) {
      pinged_ = true;
      heard_ = time - limits.ws_ping_ms;  // however late this tick is, the answer has its time
      websocket_->ping();
    }
  }
  if (exchange_) exchange_->tick(time);
  if (!deadline_.passed(time)) return;
  bool reading_request = deadline_.kind() == Deadline::Kind::kHead || deadline_.kind() == Deadline::Kind::kBody;
  if (!reading_request || close_after_ || (tls_ && !tls_->ready())) return destroy();
  in_flight_ = true;
  deadline_.clear();
  begin_record(reader_->request);
  fail(408, "the request did not arrive in time");
}

void Connection::close_if_idle() {
  if (phase_ == Phase::kWebSocket) {
    if (!exchange_ || !exchange_->busy()) close_websocket(kGoingAway, "server is shutting down");
    return;
  }
  keep_alive_ = false;
  if (!in_flight_ && phase_ == Phase::kHttp && !reader_->started() && writer_.queued() == 0) begin_linger();
}

bool Connection::cut_short() {
  if (!exchange_ || !exchange_->busy()) return false;
  exchange_->cut_short();
  close_websocket(kGoingAway, "server is shutting down");
  return true;
}

void Connection::destroy(AccessRecord::Ending ending) {
  if (phase_ == Phase::kClosed) return;
  phase_ = Phase::kClosed;
  end_record(ending);
  writer_.abandon();
  retire_exchange(true);
  server_.forget(this);
  uv_close(reinterpret_cast<uv_handle_t*>(&socket_), [](uv_handle_t* handle) { delete static_cast<Connection*>(handle->data); });
}

}  // namespace troupe::gateway
