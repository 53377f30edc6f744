// HttpAnswer: one HTTP/1.1 answer read from bytes as they arrive; knows no socket. For the clients (http_stream.h blocks, bench's
// load client does not). One thread. Every byte of the server is untrusted: sizes are bounded, a fault is an Error, and then the
// object is of no further use.
#pragma once
#include "messages/error.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace troupe::cluster {

class HttpAnswer {
 public:
  /// Longest line and, until it is taken, longest body.
  static constexpr std::size_t kMaxBytes = 1 << 20;

  /// The next bytes of the connection. Error: no HTTP, broken framing, a line beyond kMaxBytes.
  Status take(std::string_view bytes);
  /// The connection has ended. Error if the answer may not end there.
  Status end_of_input();

  bool has_head() const { return state_ > State::kFields; }
  int status() const { return status_; }
  /// All of the body has been taken in; lines may be left.
  bool ended() const { return state_ == State::kEnded; }
  /// Next line of the body without its end; once it has ended, also what stands behind its last line end. nullopt: none yet.
  std::optional<std::string> next_line();
  std::size_t body_bytes() const { return body_.size(); }
  /// All of the body that was not taken as lines.
  std::string take_body();

 private:
  enum class State : std::uint8_t { kStatusLine, kFields, kChunkSize, kChunkData, kChunkEnd, kBody, kEnded };
  Result<bool> advance();  // false: needs more bytes
  Status take_status_line(std::string_view line);
  Status take_field(std::string_view line);
  Status take_chunk_size(std::string_view line);
  void take_data();

  State state_ = State::kStatusLine;
  int status_ = 0;
  bool chunked_ = false;
  std::optional<std::uint64_t> left_;  // bytes of the body (or of the chunk) not yet read; nullopt: to the end of the connection
  std::string raw_, body_;
  std::size_t searched_ = 0;  // of body_, without a line end
};

}  // namespace troupe::cluster
