#include "kernels/cpu/thread_team.h"

#include <algorithm>
#include <climits>
#include <ctime>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace troupe::kernels::cpu {
namespace {

void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected) {
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}
void futex_wake_all(std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

std::vector<int> allowed_cores() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof mask, &mask) == 0)
    for (int i = 0; i < CPU_SETSIZE; ++i)
      if (CPU_ISSET(i, &mask)) cores.push_back(i);
  return cores;
}

void pin_to(int core) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  CPU_SET(static_cast<std::size_t>(core), &mask);
  sched_setaffinity(0, sizeof mask, &mask);  // best effort
}

double thread_cpu_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}
double seconds(std::chrono::steady_clock::duration d) { return std::chrono::duration<double>(d).count(); }

constexpr std::size_t kMostThreads = 256;

}  // namespace

ThreadTeam::ThreadTeam(const TeamOptions& options) : spin_(std::chrono::microseconds(options.spin_us)) {
  const std::vector<int> cores = allowed_cores();
  std::size_t threads = options.threads;
  if (threads == 0) {
    threads = std::max<std::size_t>(cores.size(), 1);
    if (threads >= 8) --threads;
  }
  threads = std::min(threads, kMostThreads);
  if (options.pin && threads > 1 && threads <= cores.size()) cores_ = cores;
  active_ = threads;
  for (std::size_t i = 1; i < threads; ++i) start_.push_back(std::make_unique<Signal>());
  for (std::size_t i = 1; i < threads; ++i) workers_.emplace_back([this, i] { work_loop(i); });
}

ThreadTeam::~ThreadTeam() {
  stop_.store(true);
  for (auto& start : start_) {
    start->value.fetch_add(1);
    wake(*start);
  }
  for (auto& worker : workers_) worker.join();
  if (leader_ == std::this_thread::get_id()) unpin_leader();
}

template <typename Done>
void ThreadTeam::wait(Signal& signal, Done done) const {
  if (done(signal.value.load(std::memory_order_acquire))) return;
  if (spin_.count() > 0) {
    const auto until = Clock::now() + spin_;
    do {
      for (int i = 0; i < 32; ++i) {
        if (done(signal.value.load(std::memory_order_acquire))) return;
        __builtin_ia32_pause();
      }
    } while (Clock::now() < until);
  }
  // The waker changes the value, then looks for sleepers; we count ourselves, then look at the value: one of us sees the other.
  signal.sleepers.fetch_add(1);
  for (;;) {
    const std::uint32_t value = signal.value.load();
    if (done(value)) break;
    futex_wait(signal.value, value);
  }
  signal.sleepers.fetch_sub(1);
}

void ThreadTeam::wake(Signal& signal) {
  if (signal.sleepers.load() > 0) futex_wake_all(signal.value);
}

void ThreadTeam::work_loop(std::size_t index) {
  if (!cores_.empty()) pin_to(cores_[index]);
  Signal& start = *start_[index - 1];
  for (std::uint32_t seen = 0;;) {
    wait(start, [&](std::uint32_t value) { return value != seen; });
    seen = start.value.load(std::memory_order_acquire);
    if (stop_.load()) return;
    entry_(target_, Member(this, index, active_));
    if (left_.value.fetch_sub(1) == 1) wake(left_);
  }
}

void ThreadTeam::run_all(Entry entry, void* target, bool pin_caller) {
  if (pin_caller && !cores_.empty()) pin_leader();
  if (active_ < size() && Clock::now() >= retry_at_) active_ = size();
  if (active_ == 1) {
    entry(target, Member(this, 0, 1));
    return;
  }
  const std::size_t count = active_;
  entry_ = entry;
  target_ = target;
  barrier_wait_ = {};
  left_.value.store(static_cast<std::uint32_t>(count - 1), std::memory_order_relaxed);
  const auto begin = Clock::now();
  for (std::size_t i = 1; i < count; ++i) {
    start_[i - 1]->value.fetch_add(1);
    wake(*start_[i - 1]);
  }
  entry(target, Member(this, 0, count));
  const auto done = Clock::now();
  wait(left_, [](std::uint32_t value) { return value == 0; });
  watch(done - begin - barrier_wait_, Clock::now() - done + barrier_wait_);
}

void ThreadTeam::barrier(std::size_t count, bool leader) {
  const auto begin = leader ? Clock::now() : Clock::time_point{};
  const std::uint32_t generation = barrier_.value.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1) + 1 == count) {
    arrived_.store(0, std::memory_order_relaxed);
    barrier_.value.fetch_add(1);
    wake(barrier_);
  } else {
    wait(barrier_, [&](std::uint32_t value) { return value != generation; });
  }
  if (leader) barrier_wait_ += Clock::now() - begin;
}

void ThreadTeam::pin_leader() {
  const auto self = std::this_thread::get_id();
  if (leader_pinned_ && leader_ == self) return;
  if (active_ < size()) return;  // shrunk: the one thread that is left may move to a free core
  leader_ = self;
  sched_getaffinity(0, sizeof original_mask_, &original_mask_);
  pin_to(cores_.front());
  leader_pinned_ = true;
}

void ThreadTeam::unpin_leader() {
  if (!leader_pinned_) return;
  sched_setaffinity(0, sizeof original_mask_, &original_mask_);
  leader_pinned_ = false;
}

/// Shares are equal, so thread 0 waits for the others as long as it works itself only if something else holds a core of theirs; and
/// it gets less than half a core only if something holds its own. Either makes a step take more than twice its best, which half
/// the team (in the end one free thread) does better. Most of what holds a core is gone soon, so the whole team is tried anew after a
/// tenth of a second, then two, up to 16 seconds; a try that fails costs one window.
void ThreadTeam::watch(Clock::duration busy, Clock::duration waited) {
  if (spin_.count() == 0) return;
  if (window_busy_.count() == 0 && window_waited_.count() == 0) window_cpu_ = thread_cpu_seconds();
  window_busy_ += busy;
  window_waited_ += waited;
  const auto window = window_busy_ + window_waited_;
  if (window < std::chrono::milliseconds(50)) return;
  const double cpu = thread_cpu_seconds() - window_cpu_;
  const bool held_up = window_waited_ > window_busy_ || cpu < 0.5 * seconds(window);
  window_busy_ = window_waited_ = {};
  if (!held_up) {
    retry_after_ = kFirstRetry;
    return;
  }
  active_ = std::max<std::size_t>(1, active_ / 2);
  if (active_ == 1 && leader_ == std::this_thread::get_id()) unpin_leader();
  retry_at_ = Clock::now() + retry_after_;
  retry_after_ = std::min<Clock::duration>(retry_after_ * 2, kLastRetry);
}

}  // namespace troupe::kernels::cpu
