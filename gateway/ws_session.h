// WsSession: one WebSocket after its upgrade (RFC 6455), framed by wslay behind guards for what wslay leaves open. Bytes in,
// messages and bytes out; knows no sockets; loop thread. Invariants: a text message that comes out is valid UTF-8 and at most
// max_message bytes; memory grows with bytes received, never with a length announced; nothing follows a close frame.
#pragma once
#include <wslay/wslay.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace troupe::gateway {

enum class WsOpcode : std::uint8_t { kText = WSLAY_TEXT_FRAME, kBinary = WSLAY_BINARY_FRAME };

class WsSession {
 public:
  struct Hooks {
    std::function<void(std::string_view)> write;                  // bytes for the peer
    std::function<void(WsOpcode opcode, std::string&&)> message;  // one whole message; may call send() and close()
  };
  WsSession(std::uint64_t max_message, Hooks hooks);
  ~WsSession();
  WsSession(const WsSession&) = delete;
  WsSession& operator=(const WsSession&) = delete;

  /// Takes bytes from the peer. Must not be called from inside a hook.
  void feed(std::string_view input);
  /// False once a close was sent: nothing goes out any more.
  bool send(WsOpcode opcode, std::string_view data);
  void ping();
  void close(std::uint16_t code, std::string_view why = {});

  /// Bytes of the message that is on its way.
  std::size_t held() const { return message_.size(); }
  bool close_received() const;
  bool close_sent() const;
  /// Both closes are through, or the peer broke the protocol: the server drops the connection now.
  bool finished() const;

  /// Sec-WebSocket-Accept for a Sec-WebSocket-Key; empty if the key is not 16 bytes of base64.
  static std::string accept_key(std::string_view key);

 private:
  void flush();
  void break_off(std::uint16_t code);
  static wslay_event_callbacks callbacks();

  wslay_event_context_ptr context_ = nullptr;
  Hooks hooks_;
  std::uint64_t max_message_;
  std::string_view input_;   // valid during feed() only
  std::string message_;      // the fragments so far
  bool in_control_ = false;  // the present frame is a control frame
  bool errored_ = false;     // a close with an error code is on its way; no message comes out any more
  bool failed_ = false;      // wslay gave up
};

}  // namespace troupe::gateway
