// The place of TLS in a connection, with a toy cipher in it: handshake byte first, every byte inverted, a farewell byte at the end.
#include "gateway/server.h"
#include "tests/gateway/running_gateway.h"
#include "tests/gateway/test_client.h"

#include <catch2/catch.hpp>

#include <thread>

using namespace troupe;
using namespace troupe::gateway;

namespace {

constexpr char kHello = 'H';
constexpr char kFarewell = 'F';

std::string inverted(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(~c);
  return out;
}

class ToyTls final : public Tls {
 public:
  State read(std::string_view wire, std::string& plain) override {
    if (!ready_) {
      if (wire.front() != kHello) return State::kFailed;
      wire.remove_prefix(1);
      ready_ = true;
      out_ += kHello;
    }
    plain += inverted(wire);
    return State::kOk;
  }
  bool write(std::string_view plain) override {
    out_ += inverted(plain);
    return true;
  }
  void take(std::string& wire) override { wire += std::exchange(out_, {}); }
  bool ready() const override { return ready_; }
  void shutdown() override { out_ += kFarewell; }

 private:
  std::string out_;
  bool ready_ = false;
};

class ToyContext final : public TlsContext {
 public:
  std::unique_ptr<Tls> accept() override { return std::make_unique<ToyTls>(); }
};

class Echo final : public Application {
 public:
  void request(Connection& connection, HttpRequest&& request) override { connection.respond(200, "text/plain", request.body); }
  std::string error_body(int, std::string_view why) override { return std::string(why); }
};

struct TlsServer {
  Echo application;
  Server server;
  std::thread loop;
  explicit TlsServer(const Limits& limits = {}) : server(limits, application) {
    server.use_tls(std::make_shared<ToyContext>());
    if (!server.listen("127.0.0.1", 0).ok()) throw std::runtime_error("cannot listen");
    loop = std::thread([this] { server.run(); });
  }
  ~TlsServer() {
    server.post([this] { server.drain(10); });
    loop.join();
  }
};

}  // namespace

TEST_CASE("requests and answers go through the cipher, and a close through its farewell") {
  TlsServer tls;
  TestClient client(tls.server.port());
  std::string body(100000, 'x');
  std::string request =
      "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  client.send(kHello + inverted(request));
  client.read_until(inverted("\r\n\r\n" + body) + kFarewell);
  CHECK(client.closed());
}

TEST_CASE("a failed or stalled handshake closes without an HTTP answer") {
  Limits limits;
  limits.head_ms = 200;
  TlsServer tls(limits);
  for (const char* first : {"GET / HTTP/1.1\r\n\r\n", ""}) {
    TestClient client(tls.server.port());
    client.send(first);
    CHECK(client.closed());
    CHECK_THROWS(client.read_until("HTTP"));
  }
}
