// HttpRequest: one request as the reader saw it. A plain value; the loop thread owns it.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe::gateway {

struct HttpRequest {
  std::string method;
  std::string target;  // as sent: path and query, or the absolute form
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case, values without blanks at the ends
  int minor = 1;                                             // HTTP/1.<minor>
  bool keep_alive = true;
  bool expect_continue = false;
  bool has_body = false;

  /// First header of that (lower-case) name, or null.
  const std::string* find(std::string_view name) const;
  /// Whether a comma-separated header of that name lists `token`, in any case.
  bool has_token(std::string_view name, std::string_view token) const;
  int count(std::string_view name) const;
  /// The path of the target: without scheme, host and query. Percent signs stay.
  std::string path() const;
};

}  // namespace troupe::gateway
