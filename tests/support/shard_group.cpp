#include "tests/support/shard_group.h"

#include "runtime/collective/collective.h"
#include "runtime/collective/loopback_transport.h"
#include "runtime/collective/transport_table.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace troupe::test {
namespace {

/// One thread that runs jobs in order.
class Worker {
 public:
  Worker() : thread_([this] { run(); }) {}
  ~Worker() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  void post(std::function<void()> job) {
    {
      const std::lock_guard lock(mutex_);
      jobs_.push_back(std::move(job));
    }
    wake_.notify_all();
  }
  void wait_until_idle() {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [&] { return jobs_.empty(); });
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [&] { return stop_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      auto& job = jobs_.front();  // stays in the queue while it runs
      lock.unlock();
      job();
      lock.lock();
      jobs_.pop_front();
      wake_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> jobs_;
  bool stop_ = false;
  std::thread thread_;
};

struct Rank {
  base::ShardPlace place;
  kernels::Backend* backend = nullptr;
  std::unique_ptr<exec::Executor> executor;
  std::unique_ptr<collective::Port> port;
  std::unique_ptr<collective::Collective> collective;  // of the epoch
  std::unique_ptr<Worker> worker;                      // null with one rank
};

}  // namespace

class ShardGroup::State {
 public:
  State(LoadedModel& model, const ShardGroupOptions& options) : model_(model), ranks_(model.shape.ranks()) {
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      LoadedModel& part = r == 0 ? model : model.others.at(r - 1);
      Rank& rank = ranks_[r];
      rank.place = {model.shape, static_cast<std::uint16_t>(r)};
      rank.backend = part.backend.get();
      exec::ExecutorOptions executor;
      executor.device_blocks = options.blocks;
      executor.kv_format = options.kv_format;
      executor.poison_free_blocks = options.poison;
      executor.place = rank.place;
      if (options.fault_hook) executor.fault_hook = options.fault_hook(r);
      rank.executor = std::make_unique<exec::Executor>(*part.model, *part.backend, std::move(executor));
      if (ranks_.size() > 1) rank.worker = std::make_unique<Worker>();
    }
  }

  ~State() {
    leave();
    for (Rank& rank : ranks_) rank.worker.reset();
  }

  void enter_epoch(GroupEpoch epoch) {
    leave();
    if (ranks_.size() == 1) return ranks_[0].executor->enter_epoch(epoch);
    collective::Meeting meeting{epoch, "token " + std::to_string(epoch.value), {}, 0};
    for (Rank& rank : ranks_) {
      collective::TransportSpec spec;
      spec.hub = hub_;
      rank.port = collective::open_port(spec).value();
      meeting.addresses.push_back(rank.port->address());
    }
    for (Rank& rank : ranks_) {
      meeting.rank = rank.place.rank;
      post_to(rank, [this, &rank, meeting] {
        auto transport = rank.port->meet(meeting, abort_);
        rank.port.reset();
        if (!transport) throw std::runtime_error(transport.error().client_text);
        rank.collective = std::make_unique<collective::Collective>(std::move(*transport), *rank.backend,
                                                                   collective::CollectiveOptions{rank.place, model_.codec, 0}, abort_);
        rank.executor->enter_epoch(meeting.epoch, rank.collective.get());
      });
    }
    wait_until_idle();
  }

  void post(const plan::ForwardPlan& plan) {
    if (ranks_.size() == 1) return waiting_.push_back(plan);
    const auto shared = std::make_shared<const plan::ForwardPlan>(plan);
    for (Rank& rank : ranks_) {
      post_to(rank, [this, &rank, shared] {
        plan::ForwardResult result = rank.executor->run(*shared, abort_);
        if (!rank.place.samples()) return;
        const std::lock_guard lock(mutex_);
        results_.push_back(std::move(result));
        wake_.notify_all();
      });
    }
  }

  plan::ForwardResult result() {
    if (ranks_.size() == 1) {
      const plan::ForwardPlan plan = std::move(waiting_.front());
      waiting_.pop_front();
      return ranks_[0].executor->run(plan, abort_);
    }
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [&] { return !results_.empty() || failure_; });
    rethrow();
    plan::ForwardResult result = std::move(results_.front());
    results_.pop_front();
    return result;
  }

  void wait_until_idle() {
    for (Rank& rank : ranks_)
      if (rank.worker) rank.worker->wait_until_idle();
    const std::lock_guard lock(mutex_);
    rethrow();
  }

  void abort() { abort_ = true; }
  exec::Executor& executor(std::size_t rank) { return *ranks_.at(rank).executor; }

 private:
  /// Behind a failure, what is still in the queues does nothing.
  template <class Job>
  void post_to(Rank& rank, Job job) {
    rank.worker->post([this, job]() mutable {
      if (abort_) return fail(std::make_exception_ptr(exec::StepAborted()));
      try {
        job();
      } catch (...) {
        fail(std::current_exception());
      }
    });
  }

  void fail(std::exception_ptr failure) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::move(failure);
    abort_ = true;
    wake_.notify_all();
  }

  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

  void leave() {
    abort_ = true;
    for (Rank& rank : ranks_) {
      if (!rank.worker) continue;
      rank.worker->wait_until_idle();
      rank.worker->post([&rank] {
        rank.executor->leave_epoch();
        rank.collective.reset();
        rank.port.reset();
      });
    }
    for (Rank& rank : ranks_)
      if (rank.worker) rank.worker->wait_until_idle();
    const std::lock_guard lock(mutex_);
    waiting_.clear();
    results_.clear();
    failure_ = nullptr;
    abort_ = false;
  }

  LoadedModel& model_;
  std::shared_ptr<collective::LoopbackHub> hub_ = std::make_shared<collective::LoopbackHub>();
  std::atomic<bool> abort_{false};
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<plan::ForwardPlan> waiting_;  // with one rank: a plan runs when its result is wanted
  std::deque<plan::ForwardResult> results_;
  std::exception_ptr failure_;  // the first
  std::vector<Rank> ranks_;
};

ShardGroup::ShardGroup(LoadedModel& model, const ShardGroupOptions& options) : state_(std::make_unique<State>(model, options)) {}
ShardGroup::~ShardGroup() = default;
void ShardGroup::enter_epoch(GroupEpoch epoch) { state_->enter_epoch(epoch); }
void ShardGroup::post(const plan::ForwardPlan& plan) { state_->post(plan); }
plan::ForwardResult ShardGroup::result() { return state_->result(); }
void ShardGroup::wait_until_idle() { state_->wait_until_idle(); }
void ShardGroup::abort() { state_->abort(); }
exec::Executor& ShardGroup::executor(std::size_t rank) { return state_->executor(rank); }

}  // namespace troupe::test
