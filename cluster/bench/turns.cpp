// See turns.h.
#include "cluster/bench/turns.h"

#include <algorithm>
#include <cstdio>
#include <unistd.h>

namespace troupe::cluster::bench {

ProgressBar::ProgressBar() : shown_(isatty(STDERR_FILENO) == 1) {}

void ProgressBar::show(double done, const std::string& what) {
  if (!shown_) return;
  constexpr int kCells = 30;
  std::string bar;
  for (int i = 0; i < kCells; ++i) bar += i < static_cast<int>(done * kCells) ? "█" : "░";
  std::fprintf(stderr, "\r\033[K%s %3.0f %%  %s", bar.c_str(), 100 * done, what.c_str());
  std::fflush(stderr);
  drawn_ = true;
}

void ProgressBar::clear() {
  if (drawn_) std::fputs("\r\033[K", stderr);
  drawn_ = false;
}

bool run_in_turns(const std::vector<Measurement>& measurements, ProgressBar& bar, const std::atomic<bool>& stop) {
  std::uint32_t laps = 0, all = 0, done = 0;
  for (const Measurement& m : measurements) {
    laps = std::max(laps, m.laps);
    all += m.laps;
  }
  for (const Measurement& m : measurements) {
    if (stop.load()) return false;
    if (!m.warm_up) continue;
    bar.show(0, "warming up: " + m.name);
    m.warm_up();
  }
  for (std::uint32_t lap = 0; lap < laps; ++lap) {
    for (const Measurement& m : measurements) {
      if (lap >= m.laps) continue;
      if (stop.load()) return false;
      bar.show(static_cast<double>(done++) / all, m.name + ", " + std::to_string(lap + 1) + " of " + std::to_string(m.laps));
      if (!m.once()) return false;
    }
  }
  return !stop.load();
}

}  // namespace troupe::cluster::bench
