// The terminal client against a scripted server on a loopback socket: framing, events, faults.
#include "cluster/chat_client.h"

#include <catch2/catch.hpp>

#include <arpa/inet.h>
#include <functional>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

using namespace troupe;
using namespace troupe::cluster;

namespace {

/// Answers each connection with the next of its texts, in pieces of `step` bytes, and keeps what was asked.
class ScriptedServer {
 public:
  explicit ScriptedServer(std::vector<std::string> answers, std::size_t step = 1 << 20) : answers_(std::move(answers)), step_(step) {
    listener_ = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(listen(listener_, 8) == 0);
    socklen_t size = sizeof address;
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    server_ = {"127.0.0.1", std::to_string(ntohs(address.sin_port)), ""};
    thread_ = std::thread([this] { serve(); });
  }
  ~ScriptedServer() { join(); }
  const ServerAddress& address() const { return server_; }
  const std::vector<std::string>& requests() {
    join();
    return requests_;
  }

 private:
  void join() {
    if (thread_.joinable()) {
      shutdown(listener_, SHUT_RDWR);
      thread_.join();
      close(listener_);
    }
  }
  void serve() {
    for (const std::string& answer : answers_) {
      const int peer = accept(listener_, nullptr, nullptr);
      if (peer < 0) return;
      std::string request;
      char buffer[4096];
      while (!complete(request)) {
        const ssize_t got = recv(peer, buffer, sizeof buffer, 0);
        if (got <= 0) break;
        request.append(buffer, static_cast<std::size_t>(got));
      }
      requests_.push_back(request);
      for (std::size_t at = 0; at < answer.size(); at += step_) {
        const std::string piece = answer.substr(at, step_);
        if (send(peer, piece.data(), piece.size(), MSG_NOSIGNAL) < 0) break;
      }
      close(peer);
    }
  }
  static bool complete(const std::string& request) {
    const auto end = request.find("\r\n\r\n");
    if (end == std::string::npos) return false;
    const auto at = request.find("Content-Length: ");
    const std::size_t length = at < end ? std::stoul(request.substr(at + 16)) : 0;
    return request.size() >= end + 4 + length;
  }

  std::vector<std::string> answers_;
  std::size_t step_;
  std::vector<std::string> requests_;
  int listener_ = -1;
  ServerAddress server_;
  std::thread thread_;
};

std::string whole(const std::string& status, const std::string& body) {
  return "HTTP/1.1 " + status + "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}
const std::string kModels = whole("200 OK", R"({"object":"list","data":[{"id":"a model"}]})");

std::string chunked(const std::vector<std::string>& chunks) {
  std::string text = "HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n";
  for (const std::string& chunk : chunks) {
    char size[20];
    std::snprintf(size, sizeof size, "%zx", chunk.size());
    text += std::string(size) + ";x=y\r\n" + chunk + "\r\n";
  }
  return text + "0\r\n\r\n";
}

std::string event(const std::string& content, const std::string& finish = "null") {
  return R"(data: {"choices":[{"index":0,"delta":{"content":")" + content + R"("},"finish_reason":)" + finish + "}]}\n\n";
}

const std::string kUsage =
    R"(data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":5}}})"
    "\n\ndata: [DONE]\n\n";

Result<ChatTurn> ask(ScriptedServer& server, std::string* streamed = nullptr) {
  ChatClient client(server.address(), {.api_key = "secret", .system_prompt = "be brief", .max_tokens = 9, .temperature = 0, .seed = 4});
  std::string pieces;
  auto turn = client.ask(
      "hello \xff", [&](std::string_view piece) { pieces += piece; }, [] { return false; });
  if (streamed != nullptr) *streamed = pieces;
  return turn;
}

}  // namespace

TEST_CASE("an answer is streamed, whatever the cuts") {
  const std::string answer =
      chunked({event("Hel"), ": ping\n\n" + event("lo") + event("", "\"stop\"").substr(0, 9), event("", "\"stop\"").substr(9) + kUsage});
  for (std::size_t step : {std::size_t{1}, std::size_t{7}, std::size_t{1} << 20}) {
    ScriptedServer server({kModels, answer}, step);
    std::string streamed;
    auto turn = ask(server, &streamed);
    REQUIRE(turn.ok());
    CHECK(turn->text == "Hello");
    CHECK(streamed == "Hello");
    CHECK(turn->finish_reason == "stop");
    CHECK(turn->prompt_tokens == 7);
    CHECK(turn->cached_tokens == 5);
    CHECK(turn->output_tokens == 3);
    const std::string request = server.requests().back();
    CHECK(request.find("POST /v1/chat/completions HTTP/1.1\r\n") == 0);
    CHECK(request.find("Authorization: Bearer secret\r\n") != std::string::npos);
    CHECK(request.find(R"("model":"a model")") != std::string::npos);
    CHECK(request.find(R"("max_tokens":9)") != std::string::npos);
    CHECK(request.find("hello \xef\xbf\xbd") != std::string::npos);  // not UTF-8: replaced
  }
}

TEST_CASE("faults of the server are one-line errors") {
  auto text_of = [](const std::string& answer) {
    ScriptedServer server({kModels, answer});
    auto turn = ask(server);
    REQUIRE_FALSE(turn.ok());
    CHECK(turn.error().client_text.find('\n') == std::string::npos);
    return turn.error().client_text;
  };
  CHECK(text_of(whole("429 Too Many", R"({"error":{"message":"queue full"}})")) == "queue full");
  CHECK(text_of(whole("500 Oops", "oops")).find("500") != std::string::npos);
  CHECK(text_of(chunked({event("a") + "data: {\"error\":{\"message\":\"engine died\"}}\n\n"})) == "engine died");
  CHECK(text_of(chunked({event("a")})).find("without its last event") != std::string::npos);
  CHECK(text_of(chunked({"data: {nonsense\n\n"})).find("not JSON") != std::string::npos);
  CHECK(text_of("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab").find("closed the connection") != std::string::npos);
  CHECK(text_of("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n").find("broken") != std::string::npos);
  CHECK(text_of("SSH-2.0-OpenSSH\r\n").find("not an HTTP/1.1 server") != std::string::npos);
}

TEST_CASE("stopping keeps what was said") {
  ScriptedServer server({kModels, chunked({event("one"), event("two"), kUsage})});
  ChatClient client(server.address(), {});
  int pieces = 0;
  auto turn = client.ask(
      "q", [&](std::string_view) { ++pieces; }, [&] { return pieces == 1; });
  REQUIRE(turn.ok());
  CHECK(turn->text == "one");
  CHECK(turn->finish_reason == "cancelled");
}

TEST_CASE("addresses") {
  auto good = [](const std::string& url) {
    auto parsed = parse_url(url);
    REQUIRE(parsed.ok());
    return parsed->authority() + parsed->path;
  };
  CHECK(good("http://127.0.0.1:8080") == "127.0.0.1:8080");
  CHECK(good("http://127.0.0.1:8080/v1/") == "127.0.0.1:8080");
  CHECK(good("http://host/base") == "host:80/base");
  CHECK(good("[::1]:99") == "[::1]:99");
  for (const char* url :
       {"", "http://", "https://x", "http://x:0", "http://x:70000", "http://x:", "http://a b", "http://[::1", "http://x:1y"})
    CHECK_FALSE(parse_url(url).ok());
  // Port 1 of loopback is not served by anybody here.
  auto refused = HttpStream::open({"127.0.0.1", "1", ""}, "GET", "/", "");
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().client_text.find("127.0.0.1:1") != std::string::npos);
}
