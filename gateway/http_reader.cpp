// See http_reader.h.
#include "gateway/http_reader.h"

#include "gateway/http_grammar.h"

#include <algorithm>
#include <charconv>

namespace troupe::gateway {

HttpReader::Result HttpReader::fail(int status, const char* reason) {
  status_ = status;
  reason_ = reason;
  stage_ = Stage::kFailed;
  return Result::kError;
}

void HttpReader::reset() {
  request = {};
  stage_ = Stage::kRequestLine;
  line_.clear();
  head_bytes_ = trailer_bytes_ = 0;
  left_ = body_seen_ = 0;
  started_ = chunked_ = false;
}

HttpReader::Result HttpReader::feed(std::string_view& input) {
  while (!input.empty()) {
    Result result;
    switch (stage_) {
      case Stage::kDone:
      case Stage::kFailed: return Result::kError;
      case Stage::kBody:
      case Stage::kChunkData: result = take_bytes(input); break;
      default: result = take_line(input); break;
    }
    if (result != Result::kMore) return result;
  }
  return Result::kMore;
}

HttpReader::Result HttpReader::take_bytes(std::string_view& input) {
  auto count = static_cast<std::size_t>(std::min<std::uint64_t>(left_, input.size()));
  request.body.append(input.substr(0, count));
  input.remove_prefix(count);
  left_ -= count;
  body_seen_ += count;
  if (left_ > 0) return Result::kMore;
  if (stage_ == Stage::kChunkData) {
    stage_ = Stage::kChunkEnd;
    return Result::kMore;
  }
  stage_ = Stage::kDone;
  return Result::kComplete;
}

std::size_t HttpReader::line_limit() const {
  switch (stage_) {
    case Stage::kChunkLine: return limits_.chunk_line;
    case Stage::kChunkEnd: return 2;
    case Stage::kTrailerLine: return limits_.trailers;
    default: return limits_.head;
  }
}

HttpReader::Result HttpReader::over_limit() {
  switch (stage_) {
    case Stage::kRequestLine: return fail(414, "request line too long");
    case Stage::kHeaderLine: return fail(431, "request head too large");
    case Stage::kTrailerLine: return fail(431, "trailers too large");
    default: return fail(400, "malformed chunk");
  }
}

HttpReader::Result HttpReader::take_line(std::string_view& input) {
  auto newline = input.find('\n');
  std::size_t count = newline == input.npos ? input.size() : newline + 1;
  bool in_head = stage_ == Stage::kRequestLine || stage_ == Stage::kHeaderLine;
  std::size_t used = in_head ? head_bytes_ : stage_ == Stage::kTrailerLine ? trailer_bytes_ : line_.size();
  started_ = true;
  if (used + count > line_limit()) return over_limit();
  if (in_head) head_bytes_ += count;
  if (stage_ == Stage::kTrailerLine) trailer_bytes_ += count;
  auto part = input.substr(0, count);
  input.remove_prefix(count);
  if (part.back() != '\n') {
    line_.append(part);
    return Result::kMore;
  }
  if (line_.empty()) return whole_line(part);
  line_.append(part);
  std::string line;
  line.swap(line_);
  return whole_line(line);
}

HttpReader::Result HttpReader::whole_line(std::string_view line) {
  if (line.size() < 2 || line[line.size() - 2] != '\r') return fail(400, "a line must end with CRLF");
  auto text = line.substr(0, line.size() - 2);
  if (text.find('\r') != text.npos || text.find('\0') != text.npos) return fail(400, "CR or NUL inside a line");
  int status = 0;
  switch (stage_) {
    case Stage::kRequestLine:
      if (text.empty()) {  // one or two empty lines before a request are allowed (RFC 9112 section 2.2)
        if (head_bytes_ > 4) return fail(400, "empty lines before a request");
        started_ = false;
        return Result::kMore;
      }
      if ((status = http::check_request_line(text, limits_.target, &reason_)) != 0) return fail(status, reason_);
      parse_request_line(text);
      stage_ = Stage::kHeaderLine;
      return Result::kMore;
    case Stage::kHeaderLine:
      if (text.empty()) return end_of_head();
      if ((status = http::check_header_line(text, &reason_)) != 0) return fail(status, reason_);
      if (request.headers.size() >= limits_.headers) return fail(431, "too many headers");
      parse_header_line(text);
      return Result::kMore;
    case Stage::kChunkLine: return parse_chunk_line(text);
    case Stage::kChunkEnd:
      if (!text.empty()) return fail(400, "malformed chunk");
      stage_ = Stage::kChunkLine;
      return Result::kMore;
    default:  // trailers are checked and dropped: no field may arrive after the body was judged by the head
      if (text.empty()) {
        stage_ = Stage::kDone;
        return Result::kComplete;
      }
      if ((status = http::check_header_line(text, &reason_)) != 0) return fail(status, reason_);
      return Result::kMore;
  }
}

void HttpReader::parse_request_line(std::string_view line) {
  auto first = line.find(' ');
  auto last = line.rfind(' ');
  request.method = line.substr(0, first);
  request.target = line.substr(first + 1, last - first - 1);
  request.minor = line.back() - '0';
}

void HttpReader::parse_header_line(std::string_view line) {
  auto colon = line.find(':');
  std::string name(line.substr(0, colon));
  for (char& c : name)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  request.headers.emplace_back(std::move(name), http::trim(line.substr(colon + 1)));
}

HttpReader::Result HttpReader::parse_chunk_line(std::string_view line) {
  if (http::check_chunk_line(line) != 0) return fail(400, "malformed chunk size");
  std::from_chars(line.data(), line.data() + line.size(), left_, 16);
  if (left_ > limits_.body || body_seen_ + left_ > limits_.body) return fail(413, "request body too large");
  stage_ = left_ > 0 ? Stage::kChunkData : Stage::kTrailerLine;
  return Result::kMore;
}

HttpReader::Result HttpReader::end_of_head() {
  if (int status = http::check_fields(request, &chunked_, &left_, &reason_); status != 0) return fail(status, reason_);
  if (!chunked_ && left_ > limits_.body) return fail(413, "request body too large");
  if (const auto* expect = request.find("expect"); expect != nullptr && request.minor == 1) {
    if (!http::equal_ignoring_case(*expect, "100-continue")) return fail(417, "the only expectation is 100-continue");
    request.expect_continue = true;
  }
  bool close = request.has_token("connection", "close");
  request.keep_alive = !close && (request.minor == 1 || request.has_token("connection", "keep-alive"));
  request.has_body = chunked_ || left_ > 0;
  if (!request.has_body) {
    stage_ = Stage::kDone;
    return Result::kComplete;
  }
  stage_ = chunked_ ? Stage::kChunkLine : Stage::kBody;
  return Result::kHead;
}

}  // namespace troupe::gateway
