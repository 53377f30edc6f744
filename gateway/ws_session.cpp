// See ws_session.h. The guards are numbered; each has its test.
#include "gateway/ws_session.h"

#include <openssl/evp.h>
#include <openssl/sha.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace troupe::gateway {
namespace {

constexpr std::uint16_t kProtocolError = 1002;
constexpr std::uint16_t kTooBig = 1009;
constexpr std::size_t kMaxCloseReason = 123;  // bytes; a control frame holds 125

const std::uint8_t* bytes_of(std::string_view text) { return reinterpret_cast<const std::uint8_t*>(text.data()); }

}  // namespace

wslay_event_callbacks WsSession::callbacks() {
  wslay_event_callbacks table{};
  table.recv_callback = [](wslay_event_context_ptr context, std::uint8_t* buffer, std::size_t size, int, void* user) -> ssize_t {
    auto* self = static_cast<WsSession*>(user);
    if (self->input_.empty()) {
      wslay_event_set_error(context, WSLAY_ERR_WOULDBLOCK);
      return -1;
    }
    size = std::min(size, self->input_.size());
    std::memcpy(buffer, self->input_.data(), size);
    self->input_.remove_prefix(size);
    return static_cast<ssize_t>(size);
  };
  // Never WOULDBLOCK: wslay's own queue stays empty, the bound on output is the connection's.
  table.send_callback = [](wslay_event_context_ptr, const std::uint8_t* data, std::size_t size, int, void* user) -> ssize_t {
    static_cast<WsSession*>(user)->hooks_.write({reinterpret_cast<const char*>(data), size});
    return static_cast<ssize_t>(size);
  };
  table.on_frame_recv_start_callback = [](wslay_event_context_ptr, const wslay_event_on_frame_recv_start_arg* frame, void* user) {
    auto* self = static_cast<WsSession*>(user);
    self->in_control_ = wslay_is_ctrl_frame(frame->opcode);
    // Guard 1: a close body of one byte would pass as "no code".
    if (frame->opcode == WSLAY_CONNECTION_CLOSE && frame->payload_length == 1) self->break_off(kProtocolError);
    // Guard 2: without buffering wslay checks the limit for each frame only, not for the whole message.
    if (!self->in_control_ && self->message_.size() + frame->payload_length > self->max_message_) self->break_off(kTooBig);
  };
  table.on_frame_recv_chunk_callback = [](wslay_event_context_ptr, const wslay_event_on_frame_recv_chunk_arg* chunk, void* user) {
    auto* self = static_cast<WsSession*>(user);
    if (!self->in_control_ && !self->errored_) self->message_.append(reinterpret_cast<const char*>(chunk->data), chunk->data_length);
  };
  table.on_msg_recv_callback = [](wslay_event_context_ptr, const wslay_event_on_msg_recv_arg* received, void* user) {
    auto* self = static_cast<WsSession*>(user);
    // Guard 3: answer pings at once; a pong queued behind a close is dropped, and a burst of pings would fill the queue.
    if (received->opcode == WSLAY_PING) self->flush();
    if (self->errored_ || (received->opcode != WSLAY_TEXT_FRAME && received->opcode != WSLAY_BINARY_FRAME)) return;
    std::string message;
    message.swap(self->message_);
    self->hooks_.message(static_cast<WsOpcode>(received->opcode), std::move(message));
  };
  return table;
}

WsSession::WsSession(std::uint64_t max_message, Hooks hooks) : hooks_(std::move(hooks)), max_message_(max_message) {
  auto table = callbacks();
  if (wslay_event_context_server_init(&context_, &table, this) != 0) throw std::bad_alloc();
  // Guard 4: with buffering on, wslay allocates the announced length before a byte of it came.
  wslay_event_config_set_no_buffering(context_, 1);
  wslay_event_config_set_max_recv_msg_length(context_, std::max<std::uint64_t>(max_message_, 125));
}

WsSession::~WsSession() { wslay_event_context_free(context_); }

void WsSession::break_off(std::uint16_t code) {
  errored_ = true;
  close(code);
  wslay_event_shutdown_read(context_);
}

void WsSession::feed(std::string_view input) {
  if (failed_ || wslay_event_get_read_enabled(context_) == 0) return;
  input_ = input;
  int result = wslay_event_recv(context_);
  input_ = {};
  if (result != 0) {  // Guard 5: for a malformed frame header wslay queues a close without a code; say 1002 ourselves
    failed_ = true;
    if (wslay_event_get_close_sent(context_) == 0) hooks_.write({"\x88\x02\x03\xea", 4});
    return;
  }
  // Reading is off though the peer sent no close: wslay queued 1002, 1007 or 1009. Do not wait for the peer.
  if (wslay_event_get_read_enabled(context_) == 0 && !close_received()) errored_ = true;
  flush();
}

void WsSession::flush() {
  if (wslay_event_want_write(context_) != 0 && wslay_event_send(context_) != 0) failed_ = true;
}

bool WsSession::send(WsOpcode opcode, std::string_view data) {
  wslay_event_msg message{static_cast<std::uint8_t>(opcode), bytes_of(data), data.size()};
  if (failed_ || wslay_event_queue_msg(context_, &message) != 0) return false;
  flush();
  return true;
}

void WsSession::ping() {
  wslay_event_msg message{WSLAY_PING, nullptr, 0};
  if (!failed_ && wslay_event_queue_msg(context_, &message) == 0) flush();
}

void WsSession::close(std::uint16_t code, std::string_view why) {
  if (failed_) return;
  wslay_event_queue_close(context_, code, bytes_of(why), std::min(why.size(), kMaxCloseReason));
  flush();
}

bool WsSession::close_received() const { return wslay_event_get_close_received(context_) != 0; }
bool WsSession::close_sent() const { return failed_ || wslay_event_get_close_sent(context_) != 0; }
bool WsSession::finished() const { return failed_ || (close_sent() && (close_received() || errored_)); }

std::string WsSession::accept_key(std::string_view key) {
  unsigned char raw[32];
  bool valid = key.size() == 24 && key.substr(22) == "==" && EVP_DecodeBlock(raw, bytes_of(key), 24) == 18;
  if (!valid) return {};
  std::string joined(key);
  joined += "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";  // RFC 6455 section 1.3
  unsigned char digest[SHA_DIGEST_LENGTH];
  SHA1(bytes_of(joined), joined.size(), digest);
  unsigned char text[32];
  int length = EVP_EncodeBlock(text, digest, sizeof digest);
  return std::string(reinterpret_cast<char*>(text), static_cast<std::size_t>(length));
}

}  // namespace troupe::gateway
