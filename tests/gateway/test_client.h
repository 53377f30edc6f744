// A blocking HTTP and WebSocket client for tests: one socket, no threads. A read that takes more than ten seconds throws.
#pragma once
#include <nlohmann/json.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace troupe::gateway {

struct TestAnswer {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
  nlohmann::json json() const { return nlohmann::json::parse(body); }
  /// The `data:` lines of an SSE body.
  std::vector<std::string> events() const;
};

class TestClient {
 public:
  /// `receive_buffer`: bytes that the socket takes before they are read; 0 = as usual.
  explicit TestClient(std::uint16_t port, const std::string& host = "127.0.0.1", int receive_buffer = 0);
  ~TestClient();
  TestClient(const TestClient&) = delete;
  TestClient& operator=(const TestClient&) = delete;

  void send(std::string_view bytes);
  TestAnswer read_answer(bool head_only = false);
  TestAnswer get(const std::string& path, const std::string& headers = {});
  TestAnswer post(const std::string& path, const std::string& body, const std::string& headers = {});
  void send_request(const std::string& method, const std::string& path, const std::string& body = {}, const std::string& headers = {});
  /// Status and headers of an answer whose body is read piece by piece.
  TestAnswer read_head();
  /// The `data:` of the next event of a chunked SSE body; nullopt at its end.
  std::optional<std::string> read_stream_event();
  /// Reads until at least `text` was seen in what was not taken yet.
  void read_until(std::string_view text);
  /// True if the peer closes.
  bool closed();
  void close();

  /// Sends the handshake; the answer's status.
  TestAnswer upgrade(const std::string& path, const std::string& headers = {});
  void send_frame(int opcode, std::string_view payload);
  void send_event(const nlohmann::json& event) { send_frame(1, event.dump()); }
  /// One frame: opcode and payload.
  std::pair<int, std::string> read_frame();
  nlohmann::json read_event();

 private:
  bool more();
  void need(std::size_t bytes);
  std::string take(std::size_t bytes);
  std::string take_line();

  int socket_ = -1;
  std::string buffer_;
  std::string stream_;  // of an SSE body, without its chunks
};

}  // namespace troupe::gateway
