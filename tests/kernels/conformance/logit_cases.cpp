// Scans over logits: lengths around a vector and around a chunk of sums, padding, ties, what is not finite.
#include "tests/kernels/conformance/values.h"

#include <limits>
#include <numeric>

namespace troupe::kernels::testing {
namespace {

std::vector<std::size_t> lengths() {
  std::vector<std::size_t> all(70);
  std::iota(all.begin(), all.end(), std::size_t{1});
  for (const std::size_t n : {511, 512, 513, 1023, 1024, 1025, 1500, 4097}) all.push_back(n);
  return all;
}

/// Ordinary logits with padding among them and a tie.
std::vector<float> some_logits(std::size_t n) {
  Random random(n + 6000);
  std::vector<float> x = normals(random, n, 4.0F);
  for (std::size_t i = 0; i < n; ++i)
    if (random.below(9) == 0) x[i] = cpu::kNever;
  x[random.below(n)] = x[random.below(n)];
  return x;
}

void scan(const cpu::KernelSet& set, const Setting& setting, Record& out) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
  for (const std::size_t n : lengths()) {
    const GuardedArray<float> x(some_logits(n), setting.edge);
    const auto run = [&](bool with_largest) {
      bool finite = false;
      const float largest = set.logits.scan(x.data(), static_cast<int>(n), &finite);
      if (with_largest) out.add("largest of " + std::to_string(n), &largest, 1);
      out.add("finite of " + std::to_string(n), &finite, 1);
      return finite;
    };
    out.expect(run(true), "finite logits are finite, " + std::to_string(n));
    for (const std::size_t at : {std::size_t{0}, n / 2, n - 1})
      for (const float bad : {kNan, kInfinity, -kInfinity}) {
        const float kept = x[at];
        x[at] = bad;
        out.expect(!run(false), "a logit that is not finite is seen, " + std::to_string(n));
        x[at] = kept;
      }
  }
}

void find(const cpu::KernelSet& set, const Setting& setting, Record& out) {
  for (const std::size_t n : lengths()) {
    const GuardedArray<float> x(some_logits(n), setting.edge);
    for (const float wanted : {x[0], x[n / 2], x[n - 1], cpu::kNever, 1234.5F, 0.0F}) {
      const int at = set.logits.find(x.data(), static_cast<int>(n), wanted);
      out.add("place in " + std::to_string(n), &at, 1);
    }
  }
}

void exp_sums(const cpu::KernelSet& set, const Setting& setting, Record& out) {
  for (const std::size_t n : lengths())
    for (const float factor : {cpu::kLog2E, 0.01F, 20.0F}) {
      const GuardedArray<float> x(some_logits(n), setting.edge), e(n, setting.edge),
          sums((n + cpu::kSumChunk - 1) / cpu::kSumChunk, setting.edge);
      float largest = cpu::kNever;
      for (std::size_t i = 0; i < n; ++i) largest = std::max(largest, x[i]);
      const float total = set.logits.exp_sums(x.data(), static_cast<int>(n), largest, factor, e.data(), sums.data());
      out.add("exponentials of " + std::to_string(n), e);
      out.add("sums of " + std::to_string(n), sums);
      out.add("total of " + std::to_string(n), &total, 1);
    }
}

void collect(const cpu::KernelSet& set, const Setting& setting, Record& out) {
  for (const std::size_t n : lengths())
    for (const float threshold : {-2e30F, cpu::kNever, 0.0F, 3.0F, 100.0F}) {
      const GuardedArray<float> x(some_logits(n), setting.edge);
      const GuardedArray<std::uint32_t> ids(n + 16, setting.edge);
      const int count = set.logits.collect(x.data(), static_cast<int>(n), threshold, ids.data());
      out.add("count of " + std::to_string(n), &count, 1);
      out.add("ids of " + std::to_string(n), ids.data(), static_cast<std::size_t>(count));
    }
}

}  // namespace

std::vector<Case> logit_cases() {
  const std::string shape = "1 to 4097 logits";
  return {
      {"logits scan", shape, scan}, {"logits find", shape, find}, {"logits exp_sums", shape, exp_sums}, {"logits collect", shape, collect}};
}

}  // namespace troupe::kernels::testing
