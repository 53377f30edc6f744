// HttpReader: the bytes of one connection -> its requests, one at a time. Knows no sockets; one thread at a time.
// request_line -> header_line* -> (done | body | chunk_line -> chunk_data -> chunk_end -> ... -> trailer_line*) -> done.
// Invariants: a line is checked whole before a value is taken from it, so no value depends on where TCP cut the input; after a
// fault nothing is read any more.
#pragma once
#include "gateway/http_request.h"
#include "gateway/limits.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace troupe::gateway {

class HttpReader {
 public:
  enum class Result { kMore, kHead, kComplete, kError };
  /// `limits` must outlive the reader.
  explicit HttpReader(const Limits& limits) : limits_(limits) {}
  HttpReader(const HttpReader&) = delete;
  HttpReader& operator=(const HttpReader&) = delete;

  /// Takes bytes off the front of `input`. kHead: the head is complete and a body follows (now is the time for 100 or a refusal).
  /// After kComplete take `request`, then reset(). After kError the connection must be closed: see status() and reason().
  Result feed(std::string_view& input);
  void reset();

  bool started() const { return started_; }  // a byte of the current request was seen
  bool in_body() const { return stage_ >= Stage::kBody; }
  std::uint64_t body_seen() const { return body_seen_; }
  int status() const { return status_; }  // HTTP status of the error
  const char* reason() const { return reason_; }

  HttpRequest request;

 private:
  enum class Stage { kRequestLine, kHeaderLine, kBody, kChunkLine, kChunkData, kChunkEnd, kTrailerLine, kDone, kFailed };
  Result fail(int status, const char* reason);
  Result take_bytes(std::string_view& input);
  Result take_line(std::string_view& input);
  Result whole_line(std::string_view line);
  Result over_limit();
  void parse_request_line(std::string_view line);
  void parse_header_line(std::string_view line);
  Result parse_chunk_line(std::string_view line);
  Result end_of_head();
  std::size_t line_limit() const;

  const Limits& limits_;
  Stage stage_ = Stage::kRequestLine;
  std::string line_;  // the beginning of a line that came in pieces
  std::size_t head_bytes_ = 0;
  std::size_t trailer_bytes_ = 0;
  std::uint64_t left_ = 0;  // of the body or chunk
  std::uint64_t body_seen_ = 0;
  bool started_ = false;
  bool chunked_ = false;
  int status_ = 0;
  const char* reason_ = "";
};

}  // namespace troupe::gateway
