// First come, first served. A preempted sequence keeps its arrival, so it comes back before all that came later.
#include "runtime/schedule/policy_table.h"

namespace troupe::schedule {
namespace {
class FcfsPolicy final : public SchedulingPolicy {
 public:
  bool starts_before(const SequenceView& a, const SequenceView& b) const override { return a.arrival < b.arrival; }
  bool preempted_before(const SequenceView& a, const SequenceView& b) const override { return a.arrival > b.arrival; }
};
}  // namespace

std::unique_ptr<SchedulingPolicy> make_fcfs_policy() { return std::make_unique<FcfsPolicy>(); }

}  // namespace troupe::schedule
