// The client of gateway_bench: one thread, one epoll, sockets that are only counted. Reports on standard output.
#pragma once
#include <sys/types.h>

#include <atomic>
#include <cstdint>

namespace troupe::gateway {

struct BenchOptions {
  unsigned idle = 1000;    // WebSockets that do nothing
  unsigned streams = 100;  // chats that stream all the time
  unsigned seconds = 5;
  unsigned tokens_per_message = 8;  // of the fake scheduler
  bool tls = false;
};

/// In memory that both processes share.
struct BenchShared {
  std::atomic<std::uint16_t> port{0};
  std::atomic<std::uint64_t> tokens{0};  // that the client has read
  std::atomic<bool> done{false};
};

/// The byte that each token is; it stands nowhere else in an event.
constexpr char kBenchMark = '~';

/// Waits for shared.port, measures, returns.
void run_bench_client(BenchShared& shared, const BenchOptions& options, pid_t server);

}  // namespace troupe::gateway
