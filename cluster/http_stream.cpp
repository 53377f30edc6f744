// See http_stream.h.
#include "cluster/http_stream.h"
#include "messages/error_reasons.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

namespace troupe::cluster {
namespace {

constexpr std::size_t kMaxLine = 1 << 20;

Error unavailable(std::string text) { return make_error(ErrorClass::kUnavailable, ErrorReason::kUnclassified, std::move(text)); }

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
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

std::string ServerAddress::authority() const { return (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" + port; }

Result<ServerAddress> parse_url(std::string_view url) {
  auto bad = [&](const std::string& what) {
    return make_error(ErrorClass::kInvalidRequest, ErrorReason::kBadConfig, "--url '" + std::string(url) + "' " + what, "url");
  };
  std::string_view rest = url;
  if (rest.starts_with("https://")) return bad("uses TLS, which this client does not speak; give the server's http:// address");
  if (rest.starts_with("http://")) rest.remove_prefix(7);
  ServerAddress address;
  auto slash = rest.find('/');
  if (slash != std::string_view::npos) {
    address.path = std::string(rest.substr(slash));
    rest = rest.substr(0, slash);
    while (address.path.ends_with('/')) address.path.pop_back();
    if (address.path.ends_with("/v1")) address.path.resize(address.path.size() - 3);  // what OpenAI clients call the base URL
  }
  if (std::any_of(url.begin(), url.end(), [](unsigned char c) { return c <= ' ' || c == 127; })) return bad("has a blank in it");
  if (rest.starts_with('[')) {
    auto end = rest.find(']');
    if (end == std::string_view::npos) return bad("has no closing bracket");
    address.host = std::string(rest.substr(1, end - 1));
    rest.remove_prefix(end + 1);
  } else {
    auto colon = std::min(rest.find(':'), rest.size());
    address.host = std::string(rest.substr(0, colon));
    rest.remove_prefix(colon);
  }
  address.port = rest.empty() ? "80" : std::string(rest.substr(1));
  if (address.host.empty()) return bad("names no host");
  auto port = parse_number<unsigned>(address.port, 10);
  if ((!rest.empty() && rest.front() != ':') || !port || *port == 0 || *port > 65535) return bad("has no valid port (1 to 65535)");
  return address;
}

Result<HttpStream> HttpStream::open(const ServerAddress& server, std::string_view method, std::string_view path, std::string_view api_key,
                                    std::string_view body) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (int fault = getaddrinfo(server.host.c_str(), server.port.c_str(), &hints, &found); fault != 0)
    return unavailable("cannot find the host " + server.host + ": " + gai_strerror(fault));
  int last_error = 0;
  int connected = -1;
  for (addrinfo* a = found; a != nullptr && connected < 0; a = a->ai_next) {
    const int candidate = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
    if (candidate < 0) continue;
    if (connect(candidate, a->ai_addr, a->ai_addrlen) == 0) {
      connected = candidate;
    } else {
      last_error = errno;
      close(candidate);
    }
  }
  freeaddrinfo(found);
  if (connected < 0)
    return unavailable("cannot connect to " + server.authority() + ": " + std::strerror(last_error) +
                       " (is 'troupe serve' running there?)");
  HttpStream stream(connected);
  std::string head = std::string(method) + " " + server.path + std::string(path) + " HTTP/1.1\r\nHost: " + server.authority() +
                     "\r\nAccept: text/event-stream, application/json\r\nConnection: close\r\n";
  if (method == "POST") head += "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) + "\r\n";
  if (!api_key.empty()) head += "Authorization: Bearer " + std::string(api_key) + "\r\n";
  head += "\r\n";
  head += body;
  if (auto status = stream.send_all(head); !status) return status.error();
  if (auto status = stream.read_head(); !status) return status.error();
  return stream;
}

HttpStream::HttpStream(HttpStream&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)),
      status_(other.status_),
      chunked_(other.chunked_),
      ended_(other.ended_),
      eof_(other.eof_),
      left_(other.left_),
      raw_(std::move(other.raw_)),
      body_(std::move(other.body_)) {}

HttpStream::~HttpStream() {
  if (socket_ >= 0) close(socket_);
}

Status HttpStream::send_all(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0) return unavailable(std::string("the connection broke: ") + std::strerror(errno));
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return ok_status();
}

Status HttpStream::fill() {
  char buffer[16384];
  const ssize_t got = recv(socket_, buffer, sizeof buffer, 0);  // EINTR is an Error too: a signal stops the answer
  if (got < 0) return unavailable(std::string("the connection broke: ") + std::strerror(errno));
  if (got == 0) eof_ = true;
  raw_.append(buffer, static_cast<std::size_t>(got));
  return ok_status();
}

Result<std::optional<std::string>> HttpStream::raw_line() {
  for (;;) {
    if (auto end = raw_.find('\n'); end != std::string::npos) {
      std::string line = raw_.substr(0, end);
      raw_.erase(0, end + 1);
      if (line.ends_with('\r')) line.pop_back();
      return std::optional(std::move(line));
    }
    if (eof_ && raw_.empty()) return std::optional<std::string>();
    if (eof_ || raw_.size() > kMaxLine) return unavailable("the server's answer is broken");
    if (auto status = fill(); !status) return status.error();
  }
}

Status HttpStream::read_head() {
  auto first = raw_line();
  if (!first) return first.error();
  const std::string line = first->value_or("");
  if (line.size() < 12 || !line.starts_with("HTTP/1.")) return unavailable("this is not an HTTP/1.1 server");
  status_ = parse_number<int>(line.substr(9, 3), 10).value_or(0);
  for (;;) {
    auto field = raw_line();
    if (!field) return field.error();
    if (!*field) return unavailable("the server closed the connection inside its answer");
    if ((*field)->empty()) break;
    const auto colon = (*field)->find(':');
    if (colon == std::string::npos) return unavailable("the server's answer is broken");
    const std::string name = lower((*field)->substr(0, colon));
    const std::string value(trimmed(std::string_view(**field).substr(colon + 1)));
    if (name == "transfer-encoding" && lower(value) == "chunked") chunked_ = true;
    if (name == "content-length") {
      left_ = parse_number<std::uint64_t>(value, 10);
      if (!left_) return unavailable("the server's answer is broken");
    }
  }
  if (chunked_) left_ = 0;
  return ok_status();
}

Result<bool> HttpStream::fill_body() {
  if (ended_) return false;
  if (chunked_ && *left_ == 0) {
    auto line = raw_line();
    if (!line) return line.error();
    if (!*line) return unavailable("the server closed the connection inside its answer");
    const std::string size = (*line)->substr(0, (*line)->find(';'));
    left_ = parse_number<std::uint64_t>(size, 16);
    if (!left_) return unavailable("the server's answer is broken");
    ended_ = *left_ == 0;
    if (ended_) return false;
  }
  if (!chunked_ && left_ && *left_ == 0) {
    ended_ = true;
    return false;
  }
  if (raw_.empty() && !eof_)
    if (auto status = fill(); !status) return status.error();
  if (raw_.empty() && eof_) {
    if (left_) return unavailable("the server closed the connection inside its answer");
    ended_ = true;
    return false;
  }
  const std::size_t take = left_ ? static_cast<std::size_t>(std::min<std::uint64_t>(*left_, raw_.size())) : raw_.size();
  body_.append(raw_, 0, take);
  raw_.erase(0, take);
  if (left_) *left_ -= take;
  if (chunked_ && *left_ == 0) {
    auto end = raw_line();  // CRLF behind the chunk
    if (!end) return end.error();
    if (!*end || !(*end)->empty()) return unavailable("the server's answer is broken");
  }
  return true;
}

Result<std::optional<std::string>> HttpStream::next_line() {
  std::size_t searched = 0;
  for (;;) {
    if (auto end = body_.find('\n', searched); end != std::string::npos) {
      std::string line = body_.substr(0, end);
      body_.erase(0, end + 1);
      if (line.ends_with('\r')) line.pop_back();
      return std::optional(std::move(line));
    }
    searched = body_.size();
    if (searched > kMaxLine) return unavailable("the server sent a line of more than 1 MiB");
    auto more = fill_body();
    if (!more) return more.error();
    if (!*more) {
      if (body_.empty()) return std::optional<std::string>();
      return std::optional(std::exchange(body_, {}));
    }
  }
}

Result<std::string> HttpStream::rest() {
  for (;;) {
    auto more = fill_body();
    if (!more) return more.error();
    if (!*more || body_.size() > kMaxLine) return std::exchange(body_, {});
  }
}

}  // namespace troupe::cluster
