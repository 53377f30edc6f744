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

Error unavailable(std::string text) { return make_error(ErrorClass::kUnavailable, ErrorReason::kUnclassified, std::move(text)); }

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
  if (auto colon = rest.find("://"); colon != std::string_view::npos) {
    std::string scheme(rest.substr(0, colon));
    std::transform(scheme.begin(), scheme.end(), scheme.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (scheme == "https") return bad("uses TLS, which this client does not speak; give the server's http:// address");
    if (scheme != "http") return bad("must begin with http://");
    rest.remove_prefix(colon + 3);
  }
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

Result<int> connect_to(const ServerAddress& server) {
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
  return connected;
}

std::string http_request(const ServerAddress& server, std::string_view method, std::string_view path, std::string_view api_key,
                         std::string_view body) {
  std::string head = std::string(method) + " " + server.path + std::string(path) + " HTTP/1.1\r\nHost: " + server.authority() +
                     "\r\nAccept: text/event-stream, application/json\r\nConnection: close\r\n";
  if (method == "POST") head += "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) + "\r\n";
  if (!api_key.empty()) head += "Authorization: Bearer " + std::string(api_key) + "\r\n";
  head += "\r\n";
  head += body;
  return head;
}

Result<HttpStream> HttpStream::open(const ServerAddress& server, std::string_view method, std::string_view path, std::string_view api_key,
                                    std::string_view body) {
  auto connected = connect_to(server);
  if (!connected) return connected.error();
  HttpStream stream(*connected);
  const std::string request = http_request(server, method, path, api_key, body);
  for (std::string_view left = request; !left.empty();) {
    const ssize_t sent = send(stream.socket_, left.data(), left.size(), MSG_NOSIGNAL);
    if (sent < 0) return unavailable(std::string("the connection broke: ") + std::strerror(errno));
    left.remove_prefix(static_cast<std::size_t>(sent));
  }
  while (!stream.answer_.has_head())
    if (auto status = stream.fill(); !status) return status.error();
  return stream;
}

HttpStream::HttpStream(HttpStream&& other) noexcept : socket_(std::exchange(other.socket_, -1)), answer_(std::move(other.answer_)) {}

HttpStream::~HttpStream() {
  if (socket_ >= 0) close(socket_);
}

Status HttpStream::fill() {
  char buffer[16384];
  const ssize_t got = recv(socket_, buffer, sizeof buffer, 0);  // EINTR is an Error too: a signal stops the answer
  if (got < 0) return unavailable(std::string("the connection broke: ") + std::strerror(errno));
  if (got == 0) return answer_.end_of_input();
  return answer_.take({buffer, static_cast<std::size_t>(got)});
}

Result<std::optional<std::string>> HttpStream::next_line() {
  for (;;) {
    if (auto line = answer_.next_line()) return line;
    if (answer_.ended()) return std::optional<std::string>();
    if (auto status = fill(); !status) return status.error();
  }
}

Result<std::string> HttpStream::rest() {
  while (!answer_.ended() && answer_.body_bytes() <= HttpAnswer::kMaxBytes)
    if (auto status = fill(); !status) return status.error();
  return answer_.take_body();
}

}  // namespace troupe::cluster
