// See http_grammar.h. Also the look-ups of HttpRequest, which use the same rules.
#include "gateway/http_grammar.h"

#include <algorithm>
#include <cstring>

namespace troupe::gateway {

const std::string* HttpRequest::find(std::string_view name) const {
  for (const auto& header : headers)
    if (header.first == name) return &header.second;
  return nullptr;
}

int HttpRequest::count(std::string_view name) const {
  return static_cast<int>(std::count_if(headers.begin(), headers.end(), [&](const auto& header) { return header.first == name; }));
}

bool HttpRequest::has_token(std::string_view name, std::string_view token) const {
  for (const auto& header : headers) {
    if (header.first != name) continue;
    for (std::string_view rest = header.second; !rest.empty();) {
      auto comma = rest.find(',');
      if (http::equal_ignoring_case(http::trim(rest.substr(0, comma)), token)) return true;
      if (comma == rest.npos) break;
      rest.remove_prefix(comma + 1);
    }
  }
  return false;
}

std::string HttpRequest::path() const {
  std::string_view rest = target;
  if (auto scheme = rest.find("://"); scheme != rest.npos && rest.front() != '/') {
    auto slash = rest.find_first_of("/?", scheme + 3);
    if (slash == rest.npos || rest[slash] == '?') return "/";
    rest = rest.substr(slash);
  }
  return std::string(rest.substr(0, rest.find('?')));
}

namespace http {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }
bool digit(unsigned char c) { return c >= '0' && c <= '9'; }
bool hex_digit(unsigned char c) { return digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool letter(unsigned char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool control_char(unsigned char c) { return (c < 32 && c != '\t') || c == 127; }

int refuse(int status, const char* text, const char** why) {
  *why = text;
  return status;
}

// scheme "://" host [":" port] ...; no user part, host not empty.
bool absolute_form(std::string_view target) {
  if (!equal_ignoring_case(target.substr(0, 7), "http://") && !equal_ignoring_case(target.substr(0, 8), "https://")) return false;
  auto host = target.substr(target.find("//") + 2);
  host = host.substr(0, host.find_first_of("/?"));
  return !host.empty() && std::all_of(host.begin(), host.end(), [](unsigned char c) {
    return letter(c) || digit(c) || (c != 0 && std::strchr(".-:[]", c) != nullptr);
  });
}

}  // namespace

bool token_char(unsigned char c) { return c > 32 && c < 127 && std::strchr("\"(),/:;<=>?@[\\]{}", c) == nullptr; }

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return lower(x) == lower(y); });
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

const char* reason_phrase(int status) {
  switch (status) {
    case 100: return "Continue";
    case 101: return "Switching Protocols";
    case 200: return "OK";
    case 204: return "No Content";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 413: return "Content Too Large";
    case 414: return "URI Too Long";
    case 417: return "Expectation Failed";
    case 426: return "Upgrade Required";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 499: return "Client Closed Request";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    case 504: return "Gateway Timeout";
    case 505: return "HTTP Version Not Supported";
    default: return "Error";
  }
}

int check_request_line(std::string_view line, std::size_t max_target, const char** why) {
  auto first = line.find(' ');
  auto last = line.rfind(' ');
  if (first == line.npos || first == 0 || first == last) return refuse(400, "malformed request line", why);
  auto method = line.substr(0, first);
  if (!std::all_of(method.begin(), method.end(), [](unsigned char c) { return token_char(c); }))
    return refuse(400, "malformed method", why);
  auto version = line.substr(last + 1);
  bool well_formed = version.size() == 8 && version.substr(0, 5) == "HTTP/" && digit(static_cast<unsigned char>(version[5])) &&
                     version[6] == '.' && digit(static_cast<unsigned char>(version[7]));
  if (!well_formed) return refuse(400, "malformed HTTP version", why);
  if (version != "HTTP/1.1" && version != "HTTP/1.0") return refuse(505, "only HTTP/1.0 and HTTP/1.1 are spoken here", why);
  auto target = line.substr(first + 1, last - first - 1);
  if (target.size() > max_target) return refuse(414, "request target too long", why);
  for (unsigned char c : target)
    if (c <= 32 || c >= 127 || c == '#') return refuse(400, "malformed request target", why);
  // No CONNECT and no TRACE: the first changes the framing, the second echoes keys.
  static constexpr std::string_view kKnown[] = {"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"};
  if (std::find(std::begin(kKnown), std::end(kKnown), method) == std::end(kKnown)) return refuse(501, "unknown method", why);
  if (target.front() == '/' || (target == "*" && method == "OPTIONS") || absolute_form(target)) return 0;
  return refuse(400, "malformed request target", why);
}

int check_header_line(std::string_view line, const char** why) {
  if (line.front() == ' ' || line.front() == '\t') return refuse(400, "obsolete line folding", why);
  auto colon = line.find(':');
  if (colon == line.npos || colon == 0) return refuse(400, "malformed header line", why);
  for (unsigned char c : line.substr(0, colon))  // also refuses a blank before the colon
    if (!token_char(c)) return refuse(400, "malformed header name", why);
  for (unsigned char c : line.substr(colon + 1))
    if (control_char(c)) return refuse(400, "malformed header value", why);
  return 0;
}

int check_fields(const HttpRequest& request, bool* chunked, std::uint64_t* length, const char** why) {
  *chunked = false;
  *length = 0;
  int hosts = request.count("host");
  if (hosts > 1 || (hosts == 0 && request.minor == 1)) return refuse(400, "exactly one Host header is needed", why);
  if (hosts == 1)
    for (unsigned char c : *request.find("host"))
      if (c <= 32 || c >= 127 || std::strchr("/?#@\\,", c) != nullptr) return refuse(400, "malformed Host header", why);
  int lengths = request.count("content-length");
  int encodings = request.count("transfer-encoding");
  if (lengths > 1 || (lengths > 0 && encodings > 0)) return refuse(400, "ambiguous body length", why);
  if (encodings > 0) {
    if (request.minor == 0 || encodings > 1) return refuse(400, "malformed Transfer-Encoding", why);
    if (!equal_ignoring_case(*request.find("transfer-encoding"), "chunked"))
      return refuse(501, "the only transfer encoding is chunked", why);
    *chunked = true;
  } else if (lengths == 1) {
    const auto& digits = *request.find("content-length");
    if (digits.empty() || digits.size() > 18) return refuse(400, "malformed Content-Length", why);
    for (unsigned char c : digits) {
      if (!digit(c)) return refuse(400, "malformed Content-Length", why);
      *length = *length * 10 + (c - '0');
    }
  }
  return 0;
}

int check_chunk_line(std::string_view line) {
  std::size_t digits = 0;
  while (digits < line.size() && hex_digit(static_cast<unsigned char>(line[digits]))) digits++;
  if (digits == 0 || digits > 15) return 400;
  auto rest = line.substr(digits);
  if (!rest.empty() && rest.front() != ';') return 400;
  return std::any_of(rest.begin(), rest.end(), [](unsigned char c) { return control_char(c); }) ? 400 : 0;
}

}  // namespace http
}  // namespace troupe::gateway
