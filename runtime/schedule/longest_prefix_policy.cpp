// Longest cached prefix first (RadixAttention, arXiv 2312.07104, section 3: depth-first order of the tree). Pure longest-prefix starves
// requests that share nothing, so whoever waited kPatienceMs goes first, in order of arrival.
#include "runtime/schedule/policy_table.h"

namespace troupe::schedule {
namespace {
constexpr std::uint32_t kPatienceMs = 2000;

class LongestPrefixPolicy final : public SchedulingPolicy {
 public:
  bool starts_before(const SequenceView& a, const SequenceView& b) const override {
    const bool a_late = a.waited_ms >= kPatienceMs, b_late = b.waited_ms >= kPatienceMs;
    if (a_late != b_late) return a_late;
    if (!a_late && a.expected_hit != b.expected_hit) return a.expected_hit > b.expected_hit;
    return a.arrival < b.arrival;
  }
  bool preempted_before(const SequenceView& a, const SequenceView& b) const override { return a.arrival > b.arrival; }
  bool wants_expected_hit() const override { return true; }
};
}  // namespace

std::unique_ptr<SchedulingPolicy> make_longest_prefix_policy() { return std::make_unique<LongestPrefixPolicy>(); }

}  // namespace troupe::schedule
