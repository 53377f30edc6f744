// See measured_engine.h.
#include "cluster/bench/measured_engine.h"

#include "cluster/bench/load_client.h"
#include "runtime/weights/gguf_file.h"

#include <utility>

namespace troupe::cluster::bench {
namespace {

class BorrowedEngine final : public exec::ShardEngine {
 public:
  explicit BorrowedEngine(MeasuredEngine& owner) : owner_(owner) {}
  Result<exec::ShardFacts> load(const exec::ShardSpec&, const std::function<void(std::size_t, std::size_t)>&) override {
    return owner_.facts();
  }
  Result<exec::EpochFacts> enter_epoch(const exec::EpochEntry& entry, const std::atomic<bool>& abort) override {
    return owner_.enter_epoch(entry, abort);
  }
  plan::ForwardResult run(const plan::ForwardPlan& plan, const std::atomic<bool>& abort) override { return owner_.run(plan, abort); }

 private:
  MeasuredEngine& owner_;
};

double seconds_of(TimedBackend::Clock::time_point time) { return std::chrono::duration<double>(time.time_since_epoch()).count(); }

}  // namespace

Result<std::unique_ptr<MeasuredEngine>> MeasuredEngine::load(const exec::ShardSpec& spec,
                                                             const std::function<void(std::size_t, std::size_t)>& progress) {
  std::unique_ptr<MeasuredEngine> made(new MeasuredEngine);
  {
    auto file = weights::GgufFile::open(spec.model_path);
    if (!file) return file.error();
    auto config = model::read_config(**file);
    if (!config) return config.error();
    made->config_ = *config;
  }
  made->engine_ = exec::make_shard_engine({}, [engine = made.get()](std::unique_ptr<kernels::Backend> inner) {
    auto timed = std::make_unique<TimedBackend>(std::move(inner), engine->config_);
    engine->backend_ = timed.get();
    return timed;
  });
  auto facts = made->engine_->load(spec, progress);
  if (!facts) return facts.error();
  made->facts_ = *facts;
  return made;
}

plan::ForwardResult MeasuredEngine::run(const plan::ForwardPlan& plan, const std::atomic<bool>& abort) {
  const double start = now_seconds();
  plan::ForwardResult result = engine_->run(plan, abort);
  std::lock_guard lock(mutex_);
  if (!recording_) return result;
  RunRecord record;
  record.start = start;
  record.end = now_seconds();
  record.rows = static_cast<std::uint32_t>(plan.tokens.size());
  record.sequences = static_cast<std::uint32_t>(plan.runs.size());
  TimedBackend::Clock::time_point first, last;
  record.ops = backend_->take_totals(first, last);
  if (first != TimedBackend::Clock::time_point{}) {
    record.before_kernels = seconds_of(first) - record.start;
    record.behind_kernels = record.end - seconds_of(last);
  }
  records_.push_back(record);
  return result;
}

void MeasuredEngine::record(bool on) {
  std::lock_guard lock(mutex_);
  recording_ = on;
  records_.clear();
  TimedBackend::Clock::time_point first, last;
  backend_->take_totals(first, last);
  backend_->record(on);
}

std::vector<RunRecord> MeasuredEngine::take_records() {
  std::lock_guard lock(mutex_);
  return std::exchange(records_, {});
}

std::unique_ptr<exec::ShardEngine> MeasuredEngine::borrow() { return std::make_unique<BorrowedEngine>(*this); }

}  // namespace troupe::cluster::bench
