// What --fault asks for: a broken or stuck device, or a slow store, on demand; for tests.
#include "messages/error_reasons.h"
#include "runtime/exec/shard_engine.h"

#include <charconv>
#include <chrono>
#include <memory>
#include <thread>

namespace troupe::exec {
namespace {

enum class FaultKind { kThrow, kStall, kHang };

struct Fault {
  FaultKind kind = FaultKind::kThrow;
  std::uint64_t every = 0;
  std::uint64_t steps = 0;  // over the life of the shard: plans count from 1 in each epoch
};

// Fires in the middle of a step, when K and V of the first layer are written and nothing has been sampled.
constexpr std::size_t kCountAt = 0, kFireAt = 1;
constexpr std::uint64_t kMostNumber = 1'000'000'000, kMegabyte = 1'000'000;

void fire(const Fault& fault, const std::atomic<bool>& abort) {
  constexpr auto kNap = std::chrono::milliseconds(1);
  switch (fault.kind) {
    case FaultKind::kThrow: throw std::runtime_error("fault hook: throw at step " + std::to_string(fault.steps));
    case FaultKind::kStall:
      while (!abort.load(std::memory_order_relaxed)) std::this_thread::sleep_for(kNap);
      return;
    case FaultKind::kHang:
      for (;;) std::this_thread::sleep_for(kNap);
  }
}

}  // namespace

Result<Faults> parse_fault(const std::string& spec) {
  if (spec.empty()) return Faults{};
  const auto bad = [&spec] {
    return make_error(ErrorClass::kInvalidRequest, ErrorReason::kBadConfig,
                      "fault: '" + spec + "' is not throw:N, stall:N, hang:N, slow-disk:N or slow-host:N with N >= 1", "fault");
  };
  const std::size_t colon = spec.find(':');
  if (colon == std::string::npos) return bad();
  std::uint64_t number = 0;
  const char* end = spec.data() + spec.size();
  const auto [stop, code] = std::from_chars(spec.data() + colon + 1, end, number);
  if (code != std::errc() || stop != end || number == 0 || number > kMostNumber) return bad();

  const std::string kind = spec.substr(0, colon);
  if (kind == "slow-disk") return Faults{{}, {Tier::kDisk, number * kMegabyte}};
  if (kind == "slow-host") return Faults{{}, {Tier::kHost, number * kMegabyte}};
  auto fault = std::make_shared<Fault>();
  fault->every = number;
  if (kind == "throw")
    fault->kind = FaultKind::kThrow;
  else if (kind == "stall")
    fault->kind = FaultKind::kStall;
  else if (kind == "hang")
    fault->kind = FaultKind::kHang;
  else
    return bad();
  return Faults{[fault](std::uint64_t, std::size_t segment, const std::atomic<bool>& abort) {
                  if (segment == kCountAt) ++fault->steps;
                  if (segment == kFireAt && fault->steps % fault->every == 0) fire(*fault, abort);
                },
                {}};
}

}  // namespace troupe::exec
