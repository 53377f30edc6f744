// SchedulingPolicy: the order in which waiting sequences start, and who is preempted when blocks run out. Nothing else: limits,
// budgets and fairness of bytes are the scheduler's. A policy is a row of policy_table.cpp.
// Owned by the Scheduler, on its thread. Invariant: both orders are strict weak orders for views taken at one moment.
#pragma once
#include "messages/ids.h"

#include <cstdint>

namespace troupe::schedule {

/// What a policy may know of a sequence.
struct SequenceView {
  std::uint64_t arrival = 0;       // increasing; kept through preemption and restart of the group
  std::int32_t priority = 0;       // of the request; larger is more urgent
  Hash128 owner;                   // of the request
  std::uint32_t tokens = 0;        // prompt and generated so far
  std::uint32_t expected_hit = 0;  // leading tokens lately published, an estimate; 0 unless wants_expected_hit()
  std::uint32_t waited_ms = 0;     // since admission
};

class SchedulingPolicy {
 public:
  virtual ~SchedulingPolicy() = default;
  virtual bool starts_before(const SequenceView& a, const SequenceView& b) const = 0;
  virtual bool preempted_before(const SequenceView& a, const SequenceView& b) const = 0;
  /// `tokens` positions were computed for a sequence of `owner`.
  virtual void on_service(const Hash128& owner, std::uint32_t tokens);
  virtual bool wants_expected_hit() const { return false; }
};

inline void SchedulingPolicy::on_service(const Hash128&, std::uint32_t) {}

}  // namespace troupe::schedule
