// See test_client.h.
#include "tests/gateway/test_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <stdexcept>

namespace troupe::gateway {

std::vector<std::string> TestAnswer::events() const {
  std::vector<std::string> out;
  std::size_t at = 0;
  while (at < body.size()) {
    auto end = body.find("\n\n", at);
    if (end == std::string::npos) break;
    if (body.compare(at, 7, "event: ") == 0) at = body.find('\n', at) + 1;
    if (body.compare(at, 6, "data: ") == 0) out.push_back(body.substr(at + 6, end - at - 6));
    at = end + 2;
  }
  return out;
}

TestClient::TestClient(std::uint16_t port, const std::string& host, int receive_buffer) {
  bool v6 = host.find(':') != std::string::npos;
  socket_ = ::socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM, 0);
  if (receive_buffer > 0) setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
  timeval patience{10, 0};
  setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  int result = 0;
  if (v6) {
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(port);
    inet_pton(AF_INET6, host.c_str(), &address.sin6_addr);
    result = ::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address);
  } else {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    inet_pton(AF_INET, host.c_str(), &address.sin_addr);
    result = ::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address);
  }
  if (result != 0) throw std::runtime_error("cannot connect");
}

TestClient::~TestClient() { close(); }

void TestClient::close() {
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
}

void TestClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    auto sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) throw std::runtime_error("send failed");
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

bool TestClient::more() {
  char part[16384];
  auto count = ::recv(socket_, part, sizeof part, 0);
  if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) throw std::runtime_error("no answer within ten seconds");
  if (count <= 0) return false;
  buffer_.append(part, static_cast<std::size_t>(count));
  return true;
}

void TestClient::need(std::size_t bytes) {
  while (buffer_.size() < bytes)
    if (!more()) throw std::runtime_error("the peer closed");
}

std::string TestClient::take(std::size_t bytes) {
  need(bytes);
  auto out = buffer_.substr(0, bytes);
  buffer_.erase(0, bytes);
  return out;
}

std::string TestClient::take_line() {
  read_until("\r\n");
  auto line = take(buffer_.find("\r\n"));
  take(2);
  return line;
}

void TestClient::read_until(std::string_view text) {
  while (buffer_.find(text) == std::string::npos)
    if (!more()) throw std::runtime_error("the peer closed");
}

bool TestClient::closed() {
  while (more()) {
  }
  return true;
}

TestAnswer TestClient::read_answer(bool head_only) {
  TestAnswer answer;
  answer.status = std::stoi(take_line().substr(9, 3));
  for (auto line = take_line(); !line.empty(); line = take_line()) {
    auto colon = line.find(": ");
    auto name = line.substr(0, colon);
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    answer.headers[name] = line.substr(colon + 2);
  }
  if (head_only || answer.status == 101 || answer.status == 204) return answer;
  if (answer.headers.contains("content-length")) {
    answer.body = take(std::stoul(answer.headers["content-length"]));
  } else if (answer.headers.contains("transfer-encoding")) {
    for (auto size = std::stoul(take_line(), nullptr, 16);; size = std::stoul(take_line(), nullptr, 16)) {
      answer.body += take(size);
      take(2);
      if (size == 0) break;
    }
  } else {
    while (more()) {
    }
    answer.body = take(buffer_.size());
  }
  return answer;
}

TestAnswer TestClient::get(const std::string& path, const std::string& headers) {
  send("GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n");
  return read_answer();
}

TestAnswer TestClient::post(const std::string& path, const std::string& body, const std::string& headers) {
  send("POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" + headers + "\r\n" +
       body);
  return read_answer();
}

void TestClient::send_request(const std::string& method, const std::string& path, const std::string& body, const std::string& headers) {
  send(method + " " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" + headers + "\r\n" +
       body);
}

TestAnswer TestClient::read_head() { return read_answer(true); }

std::optional<std::string> TestClient::read_stream_event() {
  for (;;) {
    if (auto end = stream_.find("\n\n"); end != std::string::npos) {
      auto event = stream_.substr(0, end);
      stream_.erase(0, end + 2);
      auto data = event.find("data: ");
      if (data == std::string::npos) continue;  // a comment
      return event.substr(data + 6);
    }
    auto size = std::stoul(take_line(), nullptr, 16);
    stream_ += take(size);
    take(2);
    if (size == 0) return std::nullopt;
  }
}

TestAnswer TestClient::upgrade(const std::string& path, const std::string& headers) {
  send("GET " + path + " HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n" +
       "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n" + headers + "\r\n");
  return read_answer();
}

void TestClient::send_frame(int opcode, std::string_view payload) {
  std::string frame(1, static_cast<char>(0x80 | opcode));
  if (payload.size() < 126) {
    frame += static_cast<char>(0x80 | payload.size());
  } else {
    frame += static_cast<char>(0x80 | 127);
    for (int shift = 56; shift >= 0; shift -= 8) frame += static_cast<char>(payload.size() >> shift);
    if (payload.size() < 65536) {  // the shortest form is the only valid one
      frame.resize(1);
      frame += static_cast<char>(0x80 | 126);
      frame += static_cast<char>(payload.size() >> 8);
      frame += static_cast<char>(payload.size());
    }
  }
  constexpr std::string_view kMask = "mask";
  frame += kMask;
  for (std::size_t i = 0; i < payload.size(); i++) frame += static_cast<char>(payload[i] ^ kMask[i % 4]);
  send(frame);
}

std::pair<int, std::string> TestClient::read_frame() {
  auto head = take(2);
  std::size_t length = static_cast<unsigned char>(head[1]) & 127;
  int extra = length == 126 ? 2 : length == 127 ? 8 : 0;
  if (extra > 0) {
    length = 0;
    for (unsigned char byte : take(static_cast<std::size_t>(extra))) length = length << 8 | byte;
  }
  return {head[0] & 15, take(length)};
}

nlohmann::json TestClient::read_event() {
  for (;;) {
    auto [opcode, payload] = read_frame();
    if (opcode == 1) return nlohmann::json::parse(payload);
    if (opcode == 8) throw std::runtime_error("the WebSocket was closed");
  }
}

}  // namespace troupe::gateway
