// HttpStream: one blocking HTTP/1.1 request whose answer is read line by line while it arrives; enough for `troupe chat`.
// Owned and used by one thread. Every byte of the server is untrusted: sizes are bounded, a fault is an Error.
#pragma once
#include "messages/error.h"

#include <cstdint>
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

  int status() const { return status_; }
  /// Next line of the body without its end; nullopt at the end of the body. Error: connection lost, broken framing, or a signal.
  Result<std::optional<std::string>> next_line();
  /// The rest of the body, at most 1 MiB.
  Result<std::string> rest();

 private:
  explicit HttpStream(int socket) : socket_(socket) {}
  Status send_all(std::string_view bytes);
  Status read_head();
  Status fill();                                  // more raw bytes
  Result<std::optional<std::string>> raw_line();  // of the framing, ends in LF; nullopt = EOF before a byte
  Result<bool> fill_body();                       // false = the body has ended

  int socket_ = -1;
  int status_ = 0;
  bool chunked_ = false, ended_ = false, eof_ = false;
  std::optional<std::uint64_t> left_;  // bytes of the body (or of the chunk) not yet read; nullopt: to EOF
  std::string raw_, body_;
};

}  // namespace troupe::cluster
