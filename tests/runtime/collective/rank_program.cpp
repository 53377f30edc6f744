// A rank as a process of its own, for rank_process_test.cpp: meets the others and adds up rows with them until it is told to abort.
// Usage: collective_rank RANK RANKS INTERFACE, with a socket to the test as descriptor 0. It says its address, hears all, then says one
// text a reduce of the first ones, and how it ended.
#include "runtime/collective/collective.h"
#include "runtime/collective/transport_table.h"
#include "tests/runtime/collective/rank_wire.h"
#include "tests/support/random.h"

#include <sys/prctl.h>
#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

using namespace troupe;
using namespace troupe::collective;

namespace {
constexpr std::size_t kRows = 200, kWidth = 512;
constexpr int kTold = 3;  // reduces whose results are told

std::string add_up(Collective& sums, std::size_t rank) {
  std::vector<float> addend(kRows * kWidth), sum(kRows * kWidth);
  test::SmallRandom random(rank);
  for (float& value : addend) value = random.uniform();
  sums.start_reduce(0, {addend.data(), kRows, kWidth, kWidth});
  sums.finish_reduce(0, {sum.data(), kRows, kWidth, kWidth}, kernels::Output::kStore);
  std::uint64_t hash = 14695981039346656037U;  // FNV-1a over the bits
  const auto* bytes = reinterpret_cast<const unsigned char*>(sum.data());
  for (std::size_t i = 0; i < sum.size() * sizeof(float); ++i) hash = (hash ^ bytes[i]) * 1099511628211U;
  return std::to_string(hash);
}

std::string run(std::unique_ptr<Transport> transport, std::atomic<bool>& abort) {
  kernels::CpuOptions options;
  options.threads = 1;
  options.pin = false;
  const auto cpu = kernels::make_cpu_backend(options);
  const auto rank = static_cast<std::uint16_t>(transport->rank());
  const auto ranks = static_cast<std::uint16_t>(transport->ranks());
  try {
    Collective sums(std::move(transport), *cpu, {{{ranks, 1}, rank}, kernels::WireFormat::kInt8Group128, 50}, abort);
    for (int i = 0;; ++i) {
      const std::string text = add_up(sums, rank);
      if (i < kTold) test::say(0, text);
    }
  } catch (const std::exception& end) {
    return end.what();
  }
}
}  // namespace

int main(int count, char** words) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (count != 4) return 1;
  TransportSpec spec{"ucx", words[3], nullptr};
  const auto handler = [] {
    struct sigaction action {};
    ::sigaction(SIGSEGV, nullptr, &action);
    return action.sa_handler;
  };
  const auto before = handler();
  Result<std::unique_ptr<Port>> port = open_port(spec);
  if (!port) return test::say(0, port.error().client_text) ? 1 : 2;
  if (handler() != before) return test::say(0, "UCX handles signals") ? 1 : 2;  // as it does unless told not to
  test::say(0, (*port)->address());
  Meeting meeting{GroupEpoch{3}, "a token", {}, std::strtoul(words[1], nullptr, 10)};
  for (unsigned long rank = 0; rank < std::strtoul(words[2], nullptr, 10); ++rank) {
    std::optional<std::string> address = test::hear(0);
    if (!address) return 2;
    meeting.addresses.push_back(std::move(*address));
  }
  std::atomic<bool> abort{false};
  std::thread told([&abort] {
    test::hear(0);  // a word, or the end of the test
    abort = true;
  });
  told.detach();
  Result<std::unique_ptr<Transport>> met = (*port)->meet(meeting, abort);
  test::say(0, met ? run(std::move(*met), abort) : met.error().client_text);
  std::_Exit(0);  // the thread still listens
}
