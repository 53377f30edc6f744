#include "tests/gateway/bench_client.h"

#include <openssl/ssl.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace troupe::gateway {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// Blocking until connected and through TLS, then non-blocking.
class Socket {
 public:
  Socket(std::uint16_t port, SSL_CTX* tls) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int one = 1;
    if (::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) give_up("connect");
    ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (tls == nullptr) return;
    session_ = SSL_new(tls);
    SSL_set_fd(session_, socket_);
    if (SSL_connect(session_) != 1) give_up("TLS handshake");
  }
  ~Socket() {
    if (session_ != nullptr) SSL_free(session_);
    ::close(socket_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  int descriptor() const { return socket_; }
  void unblock() { ::fcntl(socket_, F_SETFL, O_NONBLOCK); }
  void send(const std::string& bytes) {
    const auto size = static_cast<int>(bytes.size());
    if ((session_ != nullptr ? SSL_write(session_, bytes.data(), size) : ::write(socket_, bytes.data(), bytes.size())) != size)
      give_up("send");
  }
  /// -1: nothing there; 0: closed.
  ssize_t read(char* into, std::size_t size) {
    if (session_ == nullptr) return ::read(socket_, into, size);
    const int count = SSL_read(session_, into, static_cast<int>(size));
    return count > 0 ? count : SSL_get_error(session_, count) == SSL_ERROR_ZERO_RETURN ? 0 : -1;
  }
  void read_head() {
    std::string head;
    char byte = 0;
    while (head.size() < 4 || head.compare(head.size() - 4, 4, "\r\n\r\n") != 0) {
      if (read(&byte, 1) != 1) give_up("read a head");
      head += byte;
    }
    if (head.find("HTTP/1.1 101") != 0) give_up(head.c_str());
  }

 private:
  [[noreturn]] static void give_up(const char* what) {
    std::fprintf(stderr, "gateway_bench: cannot %s\n", what);
    std::_Exit(1);
  }
  int socket_;
  SSL* session_ = nullptr;
};

// Only the newlines between events are not behind a CR.
std::uint64_t count_events(const char* begin, const char* end) {
  std::uint64_t newlines = 0;
  for (const char* at = begin; (at = static_cast<const char*>(std::memchr(at, '\n', static_cast<std::size_t>(end - at)))) != nullptr; at++)
    if (at > begin && at[-1] == '\n') newlines++;
  return newlines;
}

double resident_kib(pid_t process) {
  std::FILE* file = std::fopen(("/proc/" + std::to_string(process) + "/status").c_str(), "r");
  char line[200];
  double kib = 0;
  while (file != nullptr && std::fgets(line, sizeof line, file) != nullptr)
    if (std::strncmp(line, "VmRSS:", 6) == 0) kib = std::atof(line + 6);
  if (file != nullptr) std::fclose(file);
  return kib;
}

double cpu_seconds(pid_t process) {
  std::FILE* file = std::fopen(("/proc/" + std::to_string(process) + "/stat").c_str(), "r");
  unsigned long user = 0, system = 0;
  if (file == nullptr || std::fscanf(file, "%*d %*s %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system) != 2) user = 0;
  if (file != nullptr) std::fclose(file);
  return static_cast<double>(user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

std::string handshake() {
  return "GET /v1/responses HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
         "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
}

std::string chat() {
  const std::string body = R"({"model":"tiny","stream":true,"max_tokens":50000000,"messages":[{"role":"user","content":"go"}]})";
  return "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

struct Stream {
  std::unique_ptr<Socket> socket;
  Clock::time_point asked;
  double first_byte = -1;  // seconds
  double first_token = -1;
};

class Load {
 public:
  Load(BenchShared& shared, const BenchOptions& options, SSL_CTX* tls) : shared_(shared), options_(options), tls_(tls) {}

  void open(unsigned count) {
    for (unsigned i = 0; i < count; i++) {
      auto stream = std::make_unique<Stream>();
      stream->socket = std::make_unique<Socket>(shared_.port, tls_);
      stream->socket->unblock();
      epoll_event event{};
      event.events = EPOLLIN;
      event.data.ptr = stream.get();
      ::epoll_ctl(epoll_, EPOLL_CTL_ADD, stream->socket->descriptor(), &event);
      streams_.push_back(std::move(stream));
    }
    for (std::size_t i = streams_.size() - count; i < streams_.size(); i++) {
      streams_[i]->asked = Clock::now();
      streams_[i]->socket->send(chat());
    }
  }

  void read_for(double seconds) {
    const auto start = Clock::now();
    while (seconds_since(start) < seconds) {
      epoll_event events[64];
      const int count = ::epoll_wait(epoll_, events, 64, 20);
      for (int i = 0; i < count; i++) read(*static_cast<Stream*>(events[i].data.ptr));
    }
  }

  /// Sorted, of the streams from number `first` on.
  std::vector<double> waits(std::size_t first, double Stream::*what) const {
    std::vector<double> out;
    for (std::size_t i = first; i < streams_.size(); i++) out.push_back(streams_[i].get()->*what);
    std::sort(out.begin(), out.end());
    return out;
  }
  std::uint64_t events = 0, bytes = 0;

 private:
  void read(Stream& stream) {
    const ssize_t count = stream.socket->read(buffer_.data(), buffer_.size());
    if (count <= 0) return;
    const char *begin = buffer_.data(), *end = begin + count;
    const auto tokens = static_cast<std::uint64_t>(std::count(begin, end, kBenchMark));
    if (stream.first_byte < 0) stream.first_byte = seconds_since(stream.asked);
    if (stream.first_token < 0 && tokens > 0) stream.first_token = seconds_since(stream.asked);
    shared_.tokens += tokens;
    events += count_events(begin, end);
    bytes += static_cast<std::uint64_t>(count);
  }

  BenchShared& shared_;
  const BenchOptions& options_;
  SSL_CTX* tls_;
  int epoll_ = ::epoll_create1(0);
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<char> buffer_ = std::vector<char>(256 << 10);
};

void print_waits(const char* name, const std::vector<double>& waits) {
  if (waits.empty()) return;
  const auto at = [&](double share) { return waits[static_cast<std::size_t>(share * static_cast<double>(waits.size() - 1))] * 1e3; };
  std::printf("%-34s p50 %.1f ms, p99 %.1f ms, worst %.1f ms\n", name, at(0.5), at(0.99), at(1));
}

}  // namespace

void run_bench_client(BenchShared& shared, const BenchOptions& options, pid_t server) {
  while (shared.port == 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  SSL_CTX* tls = options.tls ? SSL_CTX_new(TLS_client_method()) : nullptr;
  std::vector<std::unique_ptr<Socket>> idle;
  {  // what the first connections of a process cost is not the price of one more
    for (int i = 0; i < 20; i++) {
      idle.push_back(std::make_unique<Socket>(shared.port, tls));
      idle.back()->send(handshake());
      idle.back()->read_head();
    }
  }
  const double before = resident_kib(server);
  for (unsigned i = 0; i < options.idle; i++) {
    idle.push_back(std::make_unique<Socket>(shared.port, tls));
    idle.back()->send(handshake());
    idle.back()->read_head();
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  if (options.idle > 0) {
    const double cpu_before = cpu_seconds(server);
    std::printf("%-34s %.1f KiB each (%u, %s)\n", "idle WebSockets, resident memory", (resident_kib(server) - before) / options.idle,
                options.idle, options.tls ? "TLS" : "plain");
    std::this_thread::sleep_for(std::chrono::seconds(1));
    std::printf("%-34s %.1f ms a second\n", "their CPU", (cpu_seconds(server) - cpu_before) * 1e3);
  }

  Load load(shared, options, tls);
  load.open(options.streams);
  load.read_for(1);
  print_waits("first byte, all streams at once", load.waits(0, &Stream::first_byte));
  const auto tokens = shared.tokens.load();
  const auto events = load.events, bytes = load.bytes;
  const double cpu = cpu_seconds(server), own = cpu_seconds(getpid());
  const auto start = Clock::now();
  load.read_for(options.seconds);
  const double time = seconds_since(start);
  const auto got = static_cast<double>(shared.tokens.load() - tokens);
  std::printf("%-34s %.0f tokens/s in %.0f events/s, %.0f MB/s; server %.2f us CPU a token, %.2f cores; client %.2f cores\n",
              (std::to_string(options.streams) + " streams").c_str(), got / time, static_cast<double>(load.events - events) / time,
              static_cast<double>(load.bytes - bytes) / time / 1e6, (cpu_seconds(server) - cpu) / got * 1e6,
              (cpu_seconds(server) - cpu) / time, (cpu_seconds(getpid()) - own) / time);
  for (int i = 0; i < 20; i++) {
    load.open(1);
    load.read_for(0.05);
  }
  load.read_for(0.5);
  print_waits("first byte, newcomers under load", load.waits(options.streams, &Stream::first_byte));
  print_waits("first token, newcomers under load", load.waits(options.streams, &Stream::first_token));
  std::printf("%-34s %.1f MiB\n", "server's resident memory", resident_kib(server) / 1024);
  std::fflush(stdout);
}

}  // namespace troupe::gateway
