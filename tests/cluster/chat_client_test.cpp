// The terminal client against a scripted server on a loopback socket: framing, events, faults.
#include "cluster/chat_client.h"

#include "tests/cluster/scripted_server.h"

#include <catch2/catch.hpp>

#include <functional>

using namespace troupe;
using namespace troupe::cluster;
using troupe::cluster::testing::ScriptedServer;

namespace {

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
       {"", "http://", "ftp://x", "http://x:0", "http://x:70000", "http://x:", "http://a b", "http://[::1", "http://x:1y"})
    CHECK_FALSE(parse_url(url).ok());
  CHECK(good("HTTP://host:1") == "host:1");
  for (const char* url : {"https://x", "HTTPS://x:8443/v1"}) {  // or a key would go to the port in the clear
    auto refused = parse_url(url);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().client_text.find(url) != std::string::npos);
    CHECK(refused.error().client_text.find("TLS") != std::string::npos);
  }
  // Port 1 of loopback is not served by anybody here.
  auto refused = HttpStream::open({"127.0.0.1", "1", ""}, "GET", "/", "");
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().client_text.find("127.0.0.1:1") != std::string::npos);
}
