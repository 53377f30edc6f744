// Compute: the one thread on which a rank's ShardEngine runs, seen as a queue of jobs. The Shard actor posts, the thread runs them in
// order. It outlives a Shard actor: a successor's jobs wait behind a step that has not returned, so no two steps of a rank ever overlap.
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace troupe::actors {

class Compute {
 public:
  virtual ~Compute() = default;
  /// Never blocks. Jobs run one at a time, in order; a job must not throw. Any thread.
  virtual void post(std::function<void()> job) = 0;
};

/// The real one. Tests on the deterministic scheduler give one that they pump by hand.
class ComputeThread final : public Compute {
 public:
  ComputeThread();
  /// Waits for the running job, drops the others. A job may hold the last handle: then the thread ends by itself.
  ~ComputeThread() override;
  void post(std::function<void()> job) override;

 private:
  struct Queue {
    std::mutex mutex;
    std::condition_variable wake;
    std::deque<std::function<void()>> jobs;
    bool stop = false;
  };
  static void run(const std::shared_ptr<Queue>& queue);
  std::shared_ptr<Queue> queue_ = std::make_shared<Queue>();  // outlives this object on a thread that ends by itself
  std::thread thread_;
};

}  // namespace troupe::actors
