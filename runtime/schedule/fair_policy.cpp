// Fair between owners (virtual token counter, arXiv 2401.00588, section 4): the owner with the least service starts first, the one with
// the most is preempted first. Credit is bounded: nobody counts as further behind the most served owner than kMostCredit tokens, so a
// newcomer, or who comes back after a pause, cannot shut out the others for long.
#include "runtime/schedule/policy_table.h"

#include <algorithm>
#include <unordered_map>

namespace troupe::schedule {
namespace {
constexpr std::uint64_t kMostCredit = 65536;  // tokens
constexpr std::size_t kOwnersKept = 4096;

class FairPolicy final : public SchedulingPolicy {
 public:
  bool starts_before(const SequenceView& a, const SequenceView& b) const override {
    const auto served_a = service(a.owner), served_b = service(b.owner);
    return served_a != served_b ? served_a < served_b : a.arrival < b.arrival;
  }
  bool preempted_before(const SequenceView& a, const SequenceView& b) const override {
    const auto served_a = service(a.owner), served_b = service(b.owner);
    return served_a != served_b ? served_a > served_b : a.arrival > b.arrival;
  }
  void on_service(const Hash128& owner, std::uint32_t tokens) override {
    const std::uint64_t served = service(owner) + tokens;
    served_[owner] = served;
    most_ = std::max(most_, served);
    if (served_.size() > kOwnersKept) std::erase_if(served_, [this](const auto& entry) { return entry.second <= floor(); });
  }

 private:
  std::uint64_t floor() const { return most_ - std::min(most_, kMostCredit); }
  std::uint64_t service(const Hash128& owner) const {
    const auto at = served_.find(owner);
    return at == served_.end() ? floor() : std::max(at->second, floor());
  }

  std::unordered_map<Hash128, std::uint64_t> served_;
  std::uint64_t most_ = 0;
};
}  // namespace

std::unique_ptr<SchedulingPolicy> make_fair_policy() { return std::make_unique<FairPolicy>(); }

}  // namespace troupe::schedule
