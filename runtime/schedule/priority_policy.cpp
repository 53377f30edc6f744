// Larger priority first; equal ones by arrival. A running sequence is never stopped for a waiting one: preemption is for want of blocks.
#include "runtime/schedule/policy_table.h"

namespace troupe::schedule {
namespace {
class PriorityPolicy final : public SchedulingPolicy {
 public:
  bool starts_before(const SequenceView& a, const SequenceView& b) const override {
    return a.priority != b.priority ? a.priority > b.priority : a.arrival < b.arrival;
  }
  bool preempted_before(const SequenceView& a, const SequenceView& b) const override {
    return a.priority != b.priority ? a.priority < b.priority : a.arrival > b.arrival;
  }
};
}  // namespace

std::unique_ptr<SchedulingPolicy> make_priority_policy() { return std::make_unique<PriorityPolicy>(); }

}  // namespace troupe::schedule
