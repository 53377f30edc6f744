// R80: streams whose readers stop must not fill the memory. What waits in a connection is bounded in bytes, a reader that takes
// nothing is cut after the documented time, and nobody else notices.
#include "tests/gateway/running_gateway.h"
#include "tests/gateway/test_client.h"

#include <catch2/catch.hpp>

#include <fstream>
#include <vector>

using namespace troupe;
using namespace troupe::gateway;

namespace {

constexpr std::size_t kReaders = 50;

double resident_mib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmRSS:")) return std::atof(line.c_str() + 6) / 1024;
  return 0;
}

double metric(std::uint16_t port, const std::string& name) {
  const auto text = TestClient(port).get("/metrics").body;
  const auto at = text.find("\n" + name + " ");
  return at == text.npos ? -1 : std::atof(text.c_str() + at + name.size() + 2);
}

std::string request_of(const std::string& content) {
  const std::string body = R"({"model":"tiny","stream":true,"messages":[{"role":"user","content":")" + content + "\"}]}";
  return "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

/// Half of them read over HTTP, half over WebSocket; neither reads.
void open_non_readers(std::uint16_t port, std::vector<std::unique_ptr<TestClient>>& clients) {
  while (clients.size() < kReaders) {
    auto& client = *clients.emplace_back(std::make_unique<TestClient>(port));
    if (clients.size() % 2 == 0) {
      client.send(request_of("words=1000000000"));
      continue;
    }
    REQUIRE(client.upgrade("/v1/responses").status == 101);
    client.send_event({{"type", "response.create"}, {"model", "tiny"}, {"input", "words=1000000000"}, {"store", false}});
  }
}

/// Another client's stream is whole, however full the others are.
void check_neighbour(std::uint16_t port) {
  TestClient reader(port);
  reader.send(request_of("words=2000"));
  const auto answer = reader.read_answer();
  CHECK(answer.status == 200);
  CHECK(answer.events().back() == "[DONE]");
  CHECK(answer.events().size() >= 2002);
}

}  // namespace

TEST_CASE("R80: 50 readers that never read: memory is bounded, they are cut in time, others go on") {
  GatewayOptions options;
  options.limits.stall_ms = 1500;
  RunningGateway running(options);
  check_neighbour(running.port());
  const double before = resident_mib();
  std::vector<std::unique_ptr<TestClient>> clients;
  open_non_readers(running.port(), clients);
  check_neighbour(running.port());
  CHECK(resident_mib() - before < 160);  // 50 connections with at most 1 MiB each, and what sanitizers keep of freed memory
  CHECK(eventually([&] { return metric(running.port(), "troupe:http_slow_readers_total") == kReaders; }));
  CHECK(eventually([&] { return running.engine.silent_cancels().size() == kReaders; }));  // the engine stops, too
  check_neighbour(running.port());
}

TEST_CASE("R80 for five minutes: they come back whenever they are cut, at the default limits", "[.long]") {
  RunningGateway running;
  check_neighbour(running.port());
  std::vector<std::unique_ptr<TestClient>> clients;
  double settled = 0;
  const auto start = std::chrono::steady_clock::now();
  const auto passed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  std::uint64_t cut = 0;
  while (passed() < 300) {
    open_non_readers(running.port(), clients);
    std::this_thread::sleep_for(std::chrono::seconds(1));
    check_neighbour(running.port());
    const auto all = static_cast<std::uint64_t>(metric(running.port(), "troupe:http_slow_readers_total"));
    if (all - cut >= kReaders) {  // a whole generation is gone: the next one
      cut += kReaders;
      clients.clear();
    }
    if (settled == 0 && passed() > 60) settled = resident_mib();
    if (settled > 0) REQUIRE(resident_mib() < settled + 30);
  }
  CHECK(cut >= 5 * kReaders);  // of the nine times 30 s
}
