// HttpStream: one blocking HTTP/1.1 request whose answer is read line by line while it arrives; enough for `troupe chat`.
// Owned and used by one thread. Every byte of the server is untrusted: sizes are bounded, a fault is an Error.
#pragma once
#include "cluster/http_answer.h"
#include "messages/error.h"

#include <optional>
#include <string>
#include <string_view>

namespace troupe::cluster {

struct ServerAddress {
  std::string host;  // without brackets
  std::string port;
  std::string path;  // prefix of the API, without a slash at the end: "" or "/base"
  std::string authority() const;
};
/// "http://host[:port][/base]"; https is refused with a hint, since the client has no TLS.
Result<ServerAddress> parse_url(std::string_view url);

class HttpStream {
 public:
  /// Sends a request (a JSON body with POST, none with GET) and reads the head of the answer. `api_key` empty: none.
  /// Errors: kUnavailable (no connection, no HTTP).
  static Result<HttpStream> open(const ServerAddress& server, std::string_view method, std::string_view path, std::string_view api_key,
                                 std::string_view body = {});
  HttpStream(HttpStream&& other) noexcept;
  HttpStream& operator=(HttpStream&&) = delete;
  ~HttpStream();

  int status() const { return answer_.status(); }
  /// Next line of the body without its end; nullopt at the end of the body. Error: connection lost, broken framing, or a signal.
  Result<std::optional<std::string>> next_line();
  /// The rest of the body, at most 1 MiB.
  Result<std::string> rest();

 private:
  explicit HttpStream(int socket) : socket_(socket) {}
  Status fill();  // more bytes, or the end of the connection

  int socket_ = -1;
  HttpAnswer answer_;
};

/// A connected socket. Error: kUnavailable, names the server.
Result<int> connect_to(const ServerAddress& server);
/// Bytes of a request as HttpStream sends it; the connection is closed behind the answer.
std::string http_request(const ServerAddress& server, std::string_view method, std::string_view path, std::string_view api_key,
                         std::string_view body);

}  // namespace troupe::cluster
