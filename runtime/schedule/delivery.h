// Delivery: when a sequence's tokens travel. One token a message while few run; from `window_from` on, tokens of a sequence are joined for
// a window, staggered by sequence, because each message costs CPU that the step loses. The first and the last message go at once.
// Owned by the Scheduler, on its thread. Invariant: tokens of a choice leave in order, without gaps, and never after its finish.
#pragma once
#include "runtime/schedule/sequence.h"

#include <array>
#include <chrono>
#include <set>
#include <utility>
#include <vector>

namespace troupe::schedule {

/// The last 128 of some times.
class RecentTimes {
 public:
  void note(TimePoint::duration time);
  /// 99th percentile, us, as of at most 15 times ago; those that were not measured yet count as none.
  double p99_us() const { return p99_us_; }

 private:
  std::array<float, 128> us_{};
  std::size_t at_ = 0;
  double p99_us_ = 0;
};

class Delivery {
 public:
  Delivery(std::uint32_t window_ms, std::uint32_t window_from) : window_(window_ms), window_from_(window_from) {}
  /// Puts a token into the sequence's outbox and sends what is due to `out`.
  void add(Sequence& sequence, TokenId token, const TopLogprobs& logprobs, TimePoint now, std::vector<TokensGenerated>& out);
  /// Puts the last token into the outbox; finish() sends it.
  void hold(Sequence& sequence, TokenId token, const TopLogprobs& logprobs);
  /// The last message, with whatever waits. `outbox.finish` and its companions are set by the caller.
  void finish(Sequence& sequence, TimePoint now, std::vector<TokensGenerated>& out);
  /// Sends the outboxes whose window is over; `find` gives the sequence of a number.
  template <class Find>
  void flush_due(TimePoint now, Find find, std::vector<TokensGenerated>& out) {
    while (!waiting_.empty() && waiting_.begin()->first <= now) {
      lateness_.note(now - waiting_.begin()->first);
      send(*find(waiting_.begin()->second), now, out);
    }
  }
  void forget(const Sequence& sequence) { waiting_.erase({sequence.due, sequence.number}); }
  void set_running(std::size_t sequences) { windowed_ = sequences >= window_from_ && window_.count() > 0; }
  std::optional<TimePoint> next_due() const;
  /// Time between two results beyond the compute time of the second: the gap between steps, and how late the result was heard.
  void note_wait(TimePoint::duration wait) { waits_.note(wait); }
  /// What delivery takes out of the stall budget, in us: the window, and the measured 99th percentile of what comes on top of it, which is
  /// how late windows end or, twice (a token has as many hops before it again), how late results are heard.
  double cost_us() const;

 private:
  void send(Sequence& sequence, TimePoint now, std::vector<TokensGenerated>& out);
  std::chrono::milliseconds window_;
  std::uint32_t window_from_;
  bool windowed_ = false;
  std::set<std::pair<TimePoint, SequenceNumber>> waiting_;
  RecentTimes lateness_, waits_;
};

void append(TopLogprobs& to, const TopLogprobs& from);

}  // namespace troupe::schedule
