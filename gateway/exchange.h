// What a Connection asks of the code that answers: the Application gets each request; an Exchange is the object that lives while
// an answer is pending or a WebSocket is open. All calls come on the loop thread.
#pragma once
#include "gateway/access_record.h"
#include "gateway/http_request.h"
#include "gateway/ws_session.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace troupe::gateway {

class Connection;

/// Owned by its connection from Connection::hold() or upgrade() to the end of the answer.
class Exchange {
 public:
  virtual ~Exchange() = default;
  /// The peer is gone or was cut: write nothing any more, stop what runs. The last call.
  virtual void hung_up() = 0;
  /// Little output waits: give credits back.
  virtual void writable() {}
  /// One whole WebSocket message.
  virtual void message(WsOpcode, std::string&&) {}
  /// Every 250 ms; `now` in loop milliseconds.
  virtual void tick(std::uint64_t /*now*/) {}
  /// Whether work runs that a drain should let end. An HTTP answer that is pending always does.
  virtual bool busy() const { return true; }
  /// The grace of a drain is over: write the terminal error now.
  virtual void cut_short() = 0;
};

class Application {
 public:
  virtual ~Application() = default;
  /// Whether the caller of a request with a long body may send it, by its head alone; if not, the refusal has been answered.
  virtual bool admits(Connection& /*connection*/, const HttpRequest& /*request*/) { return true; }
  /// Must respond(), upgrade(), or hold() an Exchange that answers later.
  virtual void request(Connection& connection, HttpRequest&& request) = 0;
  /// The body of an answer that the connection gives by itself (malformed request, time-out).
  virtual std::string error_body(int status, std::string_view why) = 0;
  /// A status line was written. `route` is what Connection::set_route() named, or empty.
  virtual void answered(std::string_view /*route*/, int /*status*/) {}
  /// A request has ended, for the access log.
  virtual void ended(const AccessRecord& /*record*/) {}
  virtual void connections_changed(std::size_t /*open*/) {}
  /// A client found no place: too many connections in all, or from its address.
  virtual void connection_refused(const std::string& /*address*/) {}
  /// Every 250 ms while there are connections or it is wanted.
  virtual void tick() {}
  /// Whether work goes on that no connection waits for. Without it and without connections the loop sleeps.
  virtual bool wants_ticks() const { return false; }
  /// A drain has ended; `cut` requests did not end by themselves.
  virtual void drained(std::uint32_t /*cut*/) {}
};

}  // namespace troupe::gateway
