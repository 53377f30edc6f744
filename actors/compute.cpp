#include "actors/compute.h"

namespace troupe::actors {

ComputeThread::ComputeThread() : thread_([queue = queue_] { run(queue); }) {}

ComputeThread::~ComputeThread() {
  {
    const std::lock_guard guard(queue_->mutex);
    queue_->stop = true;
  }
  queue_->wake.notify_one();
  if (thread_.get_id() == std::this_thread::get_id())
    thread_.detach();
  else
    thread_.join();
}

void ComputeThread::post(std::function<void()> job) {
  {
    const std::lock_guard guard(queue_->mutex);
    queue_->jobs.push_back(std::move(job));
  }
  queue_->wake.notify_one();
}

void ComputeThread::run(const std::shared_ptr<Queue>& queue) {
  for (;;) {
    std::function<void()> job;
    {
      std::unique_lock lock(queue->mutex);
      queue->wake.wait(lock, [&] { return queue->stop || !queue->jobs.empty(); });
      if (queue->stop) return;
      job = std::move(queue->jobs.front());
      queue->jobs.pop_front();
    }
    job();
  }
}

}  // namespace troupe::actors
