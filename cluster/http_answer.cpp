// See http_answer.h.
#include "cluster/http_answer.h"
#include "messages/error_reasons.h"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace troupe::cluster {
namespace {

Error unavailable(std::string text) { return make_error(ErrorClass::kUnavailable, ErrorReason::kUnclassified, std::move(text)); }
Error broken() { return unavailable("the server's answer is broken"); }
Error cut() { return unavailable("the server closed the connection inside its answer"); }

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

template <class Number>
std::optional<Number> parse_number(std::string_view text, int base) {
  Number number = 0;
  auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (fault != std::errc{} || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return number;
}

}  // namespace

Status HttpAnswer::take(std::string_view bytes) {
  raw_.append(bytes);
  for (;;) {
    auto more = advance();
    if (!more) return more.error();
    if (!*more) return ok_status();
  }
}

Status HttpAnswer::end_of_input() {
  if (state_ == State::kBody && !left_) state_ = State::kEnded;
  if (state_ == State::kEnded) return ok_status();
  if (state_ == State::kStatusLine) return unavailable("this is not an HTTP/1.1 server");
  return raw_.empty() ? cut() : broken();
}

Result<bool> HttpAnswer::advance() {
  if (state_ == State::kEnded) return false;
  if (state_ == State::kChunkData || state_ == State::kBody) {
    take_data();
    // What nobody takes may not grow for ever; a whole line is there or the line is too long.
    if (body_.size() > kMaxBytes && body_.find('\n', searched_) == std::string::npos)
      return unavailable("the server sent a line of more than 1 MiB");
    return state_ == State::kChunkEnd;
  }
  const auto end = raw_.find('\n');
  if (end == std::string::npos) {
    if (raw_.size() > kMaxBytes) return broken();
    return false;
  }
  std::string line = raw_.substr(0, end);
  raw_.erase(0, end + 1);
  if (line.ends_with('\r')) line.pop_back();
  Status status = ok_status();
  switch (state_) {
    case State::kStatusLine: status = take_status_line(line); break;
    case State::kFields: status = take_field(line); break;
    case State::kChunkSize: status = take_chunk_size(line); break;
    default:  // the CRLF behind a chunk
      if (!line.empty()) return broken();
      state_ = State::kChunkSize;
  }
  if (!status) return status.error();
  return true;
}

Status HttpAnswer::take_status_line(std::string_view line) {
  if (line.size() < 12 || !line.starts_with("HTTP/1.")) return unavailable("this is not an HTTP/1.1 server");
  status_ = parse_number<int>(line.substr(9, 3), 10).value_or(0);
  state_ = State::kFields;
  return ok_status();
}

Status HttpAnswer::take_field(std::string_view line) {
  if (line.empty()) {
    state_ = chunked_ ? State::kChunkSize : left_ && *left_ == 0 ? State::kEnded : State::kBody;
    return ok_status();
  }
  const auto colon = line.find(':');
  if (colon == std::string_view::npos) return broken();
  const std::string name = lower(line.substr(0, colon));
  const std::string_view value = trimmed(line.substr(colon + 1));
  if (name == "transfer-encoding" && lower(value) == "chunked") chunked_ = true;
  if (name == "content-length") {
    left_ = parse_number<std::uint64_t>(value, 10);
    if (!left_) return broken();
  }
  return ok_status();
}

Status HttpAnswer::take_chunk_size(std::string_view line) {
  left_ = parse_number<std::uint64_t>(line.substr(0, line.find(';')), 16);
  if (!left_) return broken();
  state_ = *left_ == 0 ? State::kEnded : State::kChunkData;
  return ok_status();
}

void HttpAnswer::take_data() {
  const std::size_t count = left_ ? static_cast<std::size_t>(std::min<std::uint64_t>(*left_, raw_.size())) : raw_.size();
  body_.append(raw_, 0, count);
  raw_.erase(0, count);
  if (!left_) return;
  *left_ -= count;
  if (*left_ == 0) state_ = state_ == State::kChunkData ? State::kChunkEnd : State::kEnded;
}

std::optional<std::string> HttpAnswer::next_line() {
  const auto end = body_.find('\n', searched_);
  if (end == std::string::npos) {
    searched_ = body_.size();
    if (!ended() || body_.empty()) return std::nullopt;
    return take_body();
  }
  std::string line = body_.substr(0, end);
  body_.erase(0, end + 1);
  searched_ = 0;
  if (line.ends_with('\r')) line.pop_back();
  return line;
}

std::string HttpAnswer::take_body() {
  searched_ = 0;
  return std::exchange(body_, {});
}

}  // namespace troupe::cluster
