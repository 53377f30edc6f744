// Measurements taken in turns: one repetition of each, then the next of each ... so that what else happens on the machine hits all
// alike and ratios within a run can be trusted. Main thread.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace troupe::cluster::bench {

/// Something that is measured several times. It keeps its own samples.
struct Measurement {
  std::string name;                    // for the progress bar
  std::uint32_t laps = 1;              // repetitions that count
  std::function<bool()> once;          // false: it was stopped half-way and has kept nothing
  std::function<void()> warm_up = {};  // before the first; not counted
};

/// A bar on stderr, on a terminal only.
class ProgressBar {
 public:
  explicit ProgressBar(bool shown) : shown_(shown) {}
  ProgressBar();  // shown if stderr is a terminal
  ~ProgressBar() { clear(); }
  void show(double done, const std::string& what);
  void clear();

 private:
  bool shown_, drawn_ = false;
};

/// False: `stop` was set before all were done; what has been kept so far is good.
bool run_in_turns(const std::vector<Measurement>& measurements, ProgressBar& bar, const std::atomic<bool>& stop);

}  // namespace troupe::cluster::bench
