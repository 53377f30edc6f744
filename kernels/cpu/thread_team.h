// A persistent team that runs one function on all its threads at once (fork and join in well under a microsecond).
// Owner: a CpuBackend. Thread 0 is the caller; one caller at a time. Waiting threads spin for a while, then sleep on a futex: a
// barrier that sleeps costs a step threefold, one that yields hands its core to a hog, and an idle team must cost nothing.
// Invariant: who computes what may change from call to call (a busy core shrinks the team); results must not depend on it.
#pragma once
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <sched.h>
#include <thread>
#include <type_traits>
#include <vector>

namespace troupe::kernels::cpu {

struct TeamOptions {
  std::size_t threads = 0;  // 0 = cores of the process, one fewer from 8 up
  bool pin = true;          // one core a thread, best effort: only if the process has a core for each
  unsigned spin_us = 150;   // longer than delivery of a token holds up one core. 0: sleep at once, and never shrink
};

class ThreadTeam {
 public:
  /// One thread's part in a run.
  class Member {
   public:
    std::size_t index() const { return index_; }
    std::size_t count() const { return count_; }
    /// This member's share of n things: contiguous, sizes differ by at most one.
    std::size_t begin(std::size_t n) const { return n * index_ / count_; }
    std::size_t end(std::size_t n) const { return n * (index_ + 1) / count_; }
    /// All members of the run have come this far, and see each other's writes.
    void barrier() const {
      if (count_ > 1) team_->barrier(count_, index_ == 0);
    }

   private:
    friend class ThreadTeam;
    Member(ThreadTeam* team, std::size_t index, std::size_t count) : team_(team), index_(index), count_(count) {}
    ThreadTeam* team_;
    std::size_t index_, count_;
  };

  explicit ThreadTeam(const TeamOptions& options);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  std::size_t size() const { return workers_.size() + 1; }
  /// Threads that the next run uses.
  std::size_t active() const { return active_; }

  /// Calls work(member) on every active thread and returns when all are done. `work` does not throw. The first run pins the
  /// calling thread, too, unless told otherwise (loading weights happens on a thread that has other things to do later).
  template <typename Work>
  void run(Work&& work, bool pin_caller = true) {
    using Target = std::remove_reference_t<Work>;
    run_all([](void* target, const Member& member) { (*static_cast<Target*>(target))(member); },
            const_cast<std::remove_const_t<Target>*>(&work), pin_caller);
  }
  /// The same on the calling thread alone: for work too small to share.
  template <typename Work>
  void run_alone(Work&& work) {
    work(Member(this, 0, 1));
  }

 private:
  using Clock = std::chrono::steady_clock;
  using Entry = void (*)(void*, const Member&);
  static constexpr Clock::duration kFirstRetry = std::chrono::milliseconds(100), kLastRetry = std::chrono::seconds(16);
  /// A futex word on a cache line of its own, with the number of its sleepers.
  struct alignas(64) Signal {
    std::atomic<std::uint32_t> value{0};
    std::atomic<std::uint32_t> sleepers{0};
  };

  void run_all(Entry entry, void* target, bool pin_caller);
  void work_loop(std::size_t index);
  void barrier(std::size_t count, bool leader);
  template <typename Done>
  void wait(Signal& signal, Done done) const;
  static void wake(Signal& signal);
  void pin_leader();
  void unpin_leader();
  void watch(Clock::duration busy, Clock::duration waited);

  Clock::duration spin_;
  std::vector<int> cores_;  // empty: not pinned
  cpu_set_t original_mask_{};
  std::thread::id leader_;
  bool leader_pinned_ = false;

  Entry entry_ = nullptr;
  void* target_ = nullptr;
  std::size_t active_ = 1;
  std::atomic<bool> stop_{false};
  std::vector<std::unique_ptr<Signal>> start_;  // one a worker, so that an inactive worker sleeps
  Signal left_;                                 // workers that have not finished the run
  Signal barrier_;                              // generation
  alignas(64) std::atomic<std::uint32_t> arrived_{0};
  Clock::duration barrier_wait_{0};  // of thread 0, in this run
  std::vector<std::thread> workers_;

  // Watch for a busy core (see watch()).
  Clock::duration window_busy_{0}, window_waited_{0};
  double window_cpu_ = 0;
  Clock::time_point retry_at_{};
  Clock::duration retry_after_ = kFirstRetry;
};

}  // namespace troupe::kernels::cpu
