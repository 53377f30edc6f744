// ScheduledReplica: scheduler and device tier in front of the shard on one thread, in real time, without actors: what planning costs,
// timed part by part. Owned by a measurement; one thread.
#pragma once
#include "cluster/bench/measured_engine.h"
#include "runtime/kv/device_tier.h"
#include "runtime/schedule/scheduler.h"

#include <deque>

namespace troupe::cluster::bench {

struct SchedulingTimes {
  double plan = 0;    // seconds in the scheduler: results taken, the next plan made
  double tier = 0;    // in the device tier: blocks leased, published, released
  double output = 0;  // moving out what is to be sent
};

class ScheduledReplica {
 public:
  /// Begins `epoch`.
  ScheduledReplica(MeasuredEngine& engine, GroupEpoch epoch, std::uint32_t sequences);
  void submit(schedule::AdmitSequence request);
  /// One plan; false when none is due.
  bool step(std::size_t& rows);
  SchedulingTimes take_times();
  static constexpr std::uint32_t kTokenBudget = 512;

 private:
  void pump();

  MeasuredEngine& engine_;
  kv::DeviceTier tier_;
  schedule::Scheduler scheduler_;
  std::deque<plan::ForwardPlan> plans_;
  SchedulingTimes times_;
};

}  // namespace troupe::cluster::bench
