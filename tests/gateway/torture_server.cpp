// The network core under an application of plain endpoints, for torture.py: small, echo, slow and streaming answers, WebSocket echo.
// A producer thread stands in for the engine (a window of 64 events a stream). torture_server PORT [HOST]; limits by environment.
#include "gateway/error_body.h"
#include "gateway/openssl_tls.h"
#include "gateway/server.h"
#include "tests/gateway/test_certificate.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <thread>

namespace {

using namespace troupe::gateway;
using Clock = std::chrono::steady_clock;

constexpr unsigned kWindow = 64;

/// What the producer tells the loop thread about one stream.
class StreamSink {
 public:
  virtual ~StreamSink() = default;
  virtual void answer(const std::string& body) = 0;
  virtual void event(const std::string& data) = 0;
  virtual void end() = 0;
};

class Producer {
 public:
  void launch(Server& server, std::map<std::uint64_t, StreamSink*>& sinks) {
    server_ = &server;
    sinks_ = &sinks;
    thread_ = std::thread([this] { loop(); });
  }
  void start(std::uint64_t id, std::uint64_t events, unsigned delay_ms, bool stream) {
    push({stream ? Kind::kStream : Kind::kAnswer, id, events, delay_ms});
  }
  void credit(std::uint64_t id, unsigned count) { push({Kind::kCredit, id, count, 0}); }
  void hangup(std::uint64_t id) { push({Kind::kHangup, id, 0, 0}); }
  void stop() {
    push({Kind::kStop, 0, 0, 0});
    thread_.join();
  }
  std::atomic<std::uint64_t> hangups{0};
  std::atomic<std::uint64_t> live{0};

 private:
  enum class Kind { kStream, kAnswer, kCredit, kHangup, kStop };
  struct Command {
    Kind kind;
    std::uint64_t id;
    std::uint64_t count;
    unsigned delay_ms;
  };
  struct Session {
    std::uint64_t left;
    Clock::time_point due;
    bool stream;
    std::uint64_t sent = 0;
    std::uint64_t credit = kWindow;
  };

  void push(Command command) {
    {
      std::lock_guard lock(mutex_);
      commands_.push_back(command);
    }
    wake_.notify_one();
  }

  void post(std::uint64_t id, std::function<void(StreamSink&)> task) {
    server_->post([this, id, task = std::move(task)] {
      if (auto found = sinks_->find(id); found != sinks_->end()) task(*found->second);
    });
  }

  std::vector<Command> wait_for_commands() {
    std::unique_lock lock(mutex_);
    auto now = Clock::now();
    auto next = now + std::chrono::seconds(1);
    bool ready = false;
    for (auto& [id, session] : sessions_) {
      if (session.credit == 0 && session.left > 0) continue;
      if (session.due <= now)
        ready = true;
      else
        next = std::min(next, session.due);
    }
    if (!ready) wake_.wait_until(lock, next, [&] { return !commands_.empty(); });
    return std::exchange(commands_, {});
  }

  bool obey(const Command& command) {
    auto found = sessions_.find(command.id);
    switch (command.kind) {
      case Kind::kStop: return false;
      case Kind::kCredit:
        if (found != sessions_.end()) found->second.credit += command.count;
        return true;
      case Kind::kHangup:
        hangups++;
        sessions_.erase(command.id);
        return true;
      default:
        sessions_[command.id] = {command.count, Clock::now() + std::chrono::milliseconds(command.delay_ms), command.kind == Kind::kStream};
        return true;
    }
  }

  // True when the session has ended.
  bool step(std::uint64_t id, Session& session) {
    if (session.due > Clock::now()) return false;
    if (!session.stream) {
      post(id, [body = "{\"slow\":" + std::to_string(session.left) + "}"](StreamSink& sink) { sink.answer(body); });
      return true;
    }
    if (session.left == 0) {
      post(id, [](StreamSink& sink) { sink.end(); });
      return true;
    }
    if (session.credit == 0) return false;
    session.credit--;
    session.left--;
    post(id, [data = "{\"token\":\" word\",\"index\":" + std::to_string(session.sent++) + ",\"x\":\"abcdef\"}"](StreamSink& sink) {
      sink.event(data);
    });
    return false;
  }

  void loop() {
    for (;;) {
      for (const auto& command : wait_for_commands())
        if (!obey(command)) return;
      for (auto entry = sessions_.begin(); entry != sessions_.end();)
        entry = step(entry->first, entry->second) ? sessions_.erase(entry) : std::next(entry);
      live = sessions_.size();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Command> commands_;
  std::map<std::uint64_t, Session> sessions_;  // producer thread
  Server* server_ = nullptr;
  std::map<std::uint64_t, StreamSink*>* sinks_ = nullptr;  // loop thread
  std::thread thread_;
};

class TortureApplication final : public Application {
 public:
  Producer producer;
  std::map<std::uint64_t, StreamSink*> sinks;
  std::uint64_t next_id = 1;

  void request(Connection& connection, HttpRequest&& request) override;
  std::string error_body(int status, std::string_view why) override { return troupe::gateway::error_body(protocol_error(status, why)); }
};

/// An answer or stream that the producer makes; on a WebSocket also the echo.
class Stream final : public Exchange, public StreamSink {
 public:
  enum class Kind { kAnswer, kEvents, kWebSocket };
  Stream(TortureApplication& application, Connection& connection, Kind kind, std::uint64_t events, unsigned delay_ms)
      : application_(application), connection_(connection), kind_(kind) {
    if (kind == Kind::kWebSocket && events == 0) return;
    id_ = application_.next_id++;
    application_.sinks[id_] = this;
    application_.producer.start(id_, events, delay_ms, kind != Kind::kAnswer);
  }
  ~Stream() override { application_.sinks.erase(id_); }

  void hung_up() override {
    if (id_ == 0) return;
    application_.sinks.erase(id_);
    application_.producer.hangup(id_);
    id_ = 0;
  }
  void cut_short() override {
    hung_up();
    connection_.fail(503, "shutting down");
    connection_.end_stream();
  }
  bool busy() const override { return id_ != 0; }
  void writable() override {
    if (owed_ > 0 && id_ != 0) application_.producer.credit(id_, owed_);
    owed_ = 0;
  }
  void message(WsOpcode opcode, std::string&& text) override { connection_.send(opcode, text); }

  void answer(const std::string& body) override {
    forget();
    connection_.respond(200, "application/json", body);
  }
  void event(const std::string& data) override {
    owed_++;
    if (kind_ == Kind::kWebSocket) return connection_.send_text(data);
    connection_.stream("data: " + data + "\n\n");
  }
  void end() override {
    event("[DONE]");
    forget();
    if (kind_ == Kind::kEvents) connection_.end_stream();
  }

 private:
  void forget() {
    application_.sinks.erase(id_);
    id_ = 0;
  }
  TortureApplication& application_;
  Connection& connection_;
  Kind kind_;
  std::uint64_t id_ = 0;
  unsigned owed_ = 0;
};

std::uint64_t argument(std::string_view text, std::string_view key, std::uint64_t fallback) {
  auto at = text.find(key);
  return at == text.npos ? fallback : std::strtoull(text.data() + at + key.size(), nullptr, 10);
}

void TortureApplication::request(Connection& connection, HttpRequest&& request) {
  auto path = request.path();
  auto hold = [&](Stream::Kind kind, std::uint64_t events, unsigned delay_ms) {
    if (kind == Stream::Kind::kEvents) connection.begin_stream("text/event-stream");
    connection.hold(std::make_unique<Stream>(*this, connection, kind, events, delay_ms));
  };
  if (connection.server().draining()) return connection.fail(503, "draining");
  if (path == "/hello") return connection.respond(200, "text/plain", "hello world\n");
  if (path == "/echo") {
    if (request.method != "POST") return connection.respond(405, "", "", "Allow: POST\r\n");
    return connection.respond(200, "application/octet-stream", request.body);
  }
  if (path == "/sse")
    return hold(Stream::Kind::kEvents, argument(request.target, "n=", 10), static_cast<unsigned>(argument(request.target, "ms=", 0)));
  if (path == "/slow") {
    auto ms = argument(request.target, "ms=", 10);
    return hold(Stream::Kind::kAnswer, ms, static_cast<unsigned>(ms));
  }
  if (path == "/stat")
    return connection.respond(200, "application/json",
                              "{\"hangups\":" + std::to_string(producer.hangups) + ",\"live\":" + std::to_string(producer.live) + "}");
  if (path == "/ws") {
    std::string_view protocol = request.has_token("sec-websocket-protocol", "troupe.v1") ? "troupe.v1" : "";
    auto stream = std::make_unique<Stream>(*this, connection, Stream::Kind::kWebSocket, argument(request.target, "n=", 0), 0);
    connection.upgrade(request, protocol, std::move(stream));
    return;
  }
  connection.respond(404, "application/json", "{\"error\":\"no such path\"}\n");
}

template <class Number>
void from_environment(const char* name, Number& value) {
  if (const char* text = std::getenv(name)) value = static_cast<Number>(std::strtoull(text, nullptr, 10));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  Limits limits;
  limits.body = 1 << 20;
  limits.drain_cut_ms = 200;
  from_environment("HEAD_MS", limits.head_ms);
  from_environment("BODY_MS", limits.body_ms);
  from_environment("IDLE_MS", limits.idle_ms);
  from_environment("STALL_MS", limits.stall_ms);
  from_environment("LINGER_MS", limits.linger_ms);
  from_environment("WS_PING_MS", limits.ws_ping_ms);
  from_environment("DRAIN_MS", limits.drain_ms);
  from_environment("WS_MESSAGE", limits.ws_message);
  from_environment("PER_IP", limits.connections_per_ip);
  TortureApplication application;
  {
    Server server(limits, application);
    if (std::getenv("TLS") != nullptr) {
      TestCertificate certificate;
      server.use_tls(load_tls(certificate.certificate(), certificate.key()).value());
    }
    auto listening = server.listen(argc > 2 ? argv[2] : "127.0.0.1", static_cast<std::uint16_t>(std::atoi(argv[1])));
    if (!listening.ok()) {
      std::fprintf(stderr, "%s\n", listening.error().client_text.c_str());
      return 1;
    }
    std::printf("%u\n", server.port());
    std::fflush(stdout);
    server.on_signals([&] { server.drain(limits.drain_ms); });
    application.producer.launch(server, application.sinks);
    server.run();
    application.producer.stop();
  }
  std::fprintf(stderr, "loop ended\n");
  return 0;
}
