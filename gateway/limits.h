// Every bound of the gateway in one place. Plain values, set once before the loop starts, read by the loop thread only.
// Defaults suit a server on a trusted host; tests shorten the times.
#pragma once
#include <cstddef>
#include <cstdint>

namespace troupe::gateway {

struct Limits {
  // One HTTP request, in bytes or counts.
  std::size_t target = 8 << 10;        // request target; else 414
  std::size_t head = 16 << 10;         // request line and header lines; else 431
  std::size_t headers = 100;           // header lines; else 431
  std::size_t chunk_line = 256;        // size and extension of a chunk; else 400
  std::size_t trailers = 4 << 10;      // trailer lines; else 431
  std::uint64_t body = 2 << 20;        // body; else 413. It is parsed on the loop thread, ~10 ms a MiB
  std::uint64_t ws_message = 1 << 20;  // one WebSocket message; else close 1009
  std::size_t json_depth = 64;         // nested arrays and objects; else 400

  // One connection, in bytes.
  std::size_t out_high = 256 << 10;     // reading stops while more output waits
  std::size_t out_low = 64 << 10;       // credits go back while at most this much output waits
  std::size_t stream_ahead = 16 << 10;  // a Responses stream writes on while at most this much output waits: pongs stand behind no more
  std::size_t pipeline = 64 << 10;      // input kept behind a request in flight; then reading stops
  std::size_t body_step = 64 << 10;     // the body deadline starts anew after so many bytes

  // Deadlines, in milliseconds.
  unsigned head_ms = 10'000;      // from the first byte of a head to its end (408), and to the first byte of a new connection
  unsigned body_ms = 15'000;      // per body_step bytes; else 408
  unsigned idle_ms = 30'000;      // keep-alive without a request
  unsigned stall_ms = 30'000;     // output waits and none of it leaves: the slow-reader rule, the connection is cut
  unsigned linger_ms = 2'000;     // after a last answer, input is read and dropped for so long
  unsigned ws_ping_ms = 20'000;   // silence before the server pings; cut after twice this
  unsigned ws_close_ms = 5'000;   // close handshake
  unsigned sse_ping_ms = 12'000;  // silence in a token stream before a comment line is sent
  unsigned stuck_ms = 15'000;     // work, but no step of the engine ends: /ready turns red
  unsigned drain_ms = 30'000;     // grace of running requests after drain()
  unsigned drain_cut_ms = 1'000;  // then they get their terminal error, and so long to take it

  // The whole gateway.
  std::size_t held = std::size_t{1} << 30;  // bytes of bodies, messages and output of all connections; beyond it the largest are cut
  std::size_t connections = 10'000;
  std::size_t connections_per_ip = 1'000;  // from one IPv4 address, or one IPv6 /64; more are closed at once
  std::size_t requests = 512;              // requests handed to the engine and not ended; else 429
  std::size_t event_readers = 8;           // of GET /v1/cache/events; else 429
  std::size_t lanes = 32;                  // responses in flight on one WebSocket (one a stream_id); else 429

  // Responses that are stored (`store`, the default), in memory.
  std::size_t response_bytes = 64 << 20;      // objects, inputs and events of all; beyond it the longest unused that have ended go
  std::uint64_t response_ttl_ms = 3'600'000;  // from its end; then it is not found any more
  std::size_t resume_bytes = 1 << 20;         // of one: newest events kept for readers that come back
  std::uint64_t resume_ms = 300'000;          // from its end, the events are kept so long
  std::uint64_t orphan_ms = 600'000;          // a stream that nobody reads is cancelled after so long; what it has is kept
  std::size_t response_readers = 8;           // of one response at the same time; else 429

  // One model request.
  std::uint32_t choices = 128;      // n, and n times the prompts of a completion
  std::size_t answer = 64 << 20;    // bytes of an answer that is gathered before it is sent; else 400
  std::size_t stops = 16;           // stop strings
  std::size_t stop_bytes = 1024;    // of one stop string
  std::size_t items = 4096;         // messages or input items
  std::size_t bias_entries = 1024;  // logit_bias
  std::uint32_t credit = 64;        // TokenDelta messages a session may have on the way
};

}  // namespace troupe::gateway
