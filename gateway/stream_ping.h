// StreamPing: the rule of the comment that stands in the silences of server-sent events, so that proxies and clients do not give up during
// a long prefill. Part of a stream; loop thread. Invariant: none is written while output waits: that is no silence, and nobody reads.
#pragma once
#include "gateway/connection.h"

#include <cstdint>

namespace troupe::gateway {

class StreamPing {
 public:
  /// Loop milliseconds; `silence_ms`: Limits::sse_ping_ms.
  StreamPing(std::uint64_t now, unsigned silence_ms) : last_event_(now), silence_ms_(silence_ms) {}
  void event_sent(std::uint64_t now) { last_event_ = now; }
  /// Call it while the stream is open.
  void tick(Connection& connection, std::uint64_t now) {
    if (now - last_event_ < silence_ms_ || !connection.has_room()) return;
    last_event_ = now;
    connection.stream(": ping\n\n");
  }

 private:
  std::uint64_t last_event_;
  unsigned silence_ms_;
};

}  // namespace troupe::gateway
