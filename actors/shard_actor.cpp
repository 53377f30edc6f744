#include "actors/shard_actor.h"

#include "actors/actor_base.h"
#include "actors/handles.h"
#include "actors/rank_worker.h"
#include "actors/timers.h"
#include "actors/wire/cache.h"
#include "actors/wire/common.h"
#include "actors/wire/moves.h"
#include "actors/wire/plan.h"
#include "actors/wire/shard_control.h"
#include "messages/error_reasons.h"
#include "messages/shard_control.capnp.h"
#include "messages/supervision.capnp.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <optional>
#include <thread>
#include <vector>

namespace troupe::actors {
namespace {

using messages::ShardFailed;

Message<ShardFailed> failure(GroupEpoch epoch, std::uint16_t rank, std::uint64_t step, const Error& error) {
  return Message<ShardFailed>::build([&](ShardFailed::Builder failed) {
    failed.setEpoch(epoch.value);
    failed.setRank(rank);
    failed.setStep(step);
    wire::write(error, failed.initError());
  });
}

Error fault(ErrorReason reason, std::string detail) {
  return make_error(ErrorClass::kGroupLost, reason, "the engine had to restart", {}, std::move(detail));
}

class ShardActor final : public ActorBase {
 public:
  ShardActor(caf::actor_config& config, ShardDependencies dependencies)
      : ActorBase(config, dependencies.context, "Shard"), parts_(std::move(dependencies)) {
    // The supervisor's death ends the shard: its successor starts a new one.
    set_down_handler([this](const caf::down_msg&) { quit(caf::exit_reason::user_shutdown); });
  }

  caf::behavior make_behavior() override {
    return {
        [this](const Message<messages::ForwardPlan>& message) { on_plan(message); },
        [this](const Message<messages::MoveBlocks>& message) { on_moves(*message); },
        [this](const Message<messages::LoadShard>& message) { on_load(message); },
        [this](const Message<messages::EnterEpoch>& message) { on_enter(message); },
        [this](IntroduceAtom, const Message<messages::ActorStarted>& message, const caf::actor& actor) {
          registry().introduce(message->getAddress(), actor);
        },
        [this](const Message<messages::LeaveEpoch>& message) { on_leave(GroupEpoch{message->getEpoch()}); },
        [this](const Message<messages::ReportInventory>& message) { on_report_inventory(*message); },
        // From the compute thread: noted here, then told to the supervisor.
        [this](const Message<ShardFailed>& message) { tell(supervisor_, message); },
        [this](WatchAtom) { on_watch(); },
    };
  }

  void on_exit() override {
    worker_->abort = true;
    if (!parts_.compute) return;  // CAF may call this twice
    // The engine goes on the thread that uses it, and before a successor loads its own.
    parts_.compute->post([worker = worker_] { worker->engine.reset(); });
    // Let go here: a handle of this actor in a job must never be what keeps the thread, which cannot join itself.
    parts_.compute.reset();
    supervisor_ = scheduler_ = {};
  }

 private:
  static constexpr int kWatchesPerPeriod = 4;
  static constexpr std::chrono::microseconds kFirstPause{10}, kLongestPause{1000};

  /// Runs `job` on the compute thread, behind all others. An exception of it becomes ShardFailed and ends the epoch there.
  template <class Job>
  void post(std::uint64_t step, Job job) {
    ++worker_->posted;
    parts_.compute->post([worker = worker_, self = caf::actor_cast<caf::weak_actor_ptr>(this), context = context_ptr(), epoch = epoch_,
                          rank = rank_, step, compute = std::weak_ptr(parts_.compute), job = std::move(job)]() mutable {
      std::optional<Error> error;
      try {
        job(*worker);
      } catch (const exec::StepAborted&) {
        // Who set the flag has told the supervisor.
      } catch (const exec::PlanGap& gap) {
        error = fault(ErrorReason::kComputeFault, std::string("plan gap: ") + gap.what());
      } catch (...) {
        error = fault(ErrorReason::kComputeFault, describe(std::current_exception()));
      }
      if (error) {
        worker->abort = true;  // plans behind this one are void
        if (auto actor = caf::actor_cast<caf::actor>(self)) tell_from(*context, "Compute", actor, failure(epoch, rank, step, *error));
      }
      ++worker->finished;
      ++worker->progress;
      settle(worker, compute, kFirstPause);
    });
    watch();
  }

  /// On the compute thread, while it has nothing else to do: other ranks wait for what this one sent (ShardEngine::settle).
  static void settle(const std::shared_ptr<RankWorker>& worker, const std::weak_ptr<Compute>& compute, std::chrono::microseconds pause) {
    if (worker->settling || !worker->engine || worker->engine->settle()) return;
    const auto thread = compute.lock();
    if (!thread) return;
    worker->settling = true;
    thread->post([worker, compute, pause] {
      worker->settling = false;
      std::this_thread::sleep_for(pause);
      settle(worker, compute, std::min(2 * pause, kLongestPause));
    });
  }

  void on_load(const Message<messages::LoadShard>& message) {
    supervisor_ = sender();
    monitor(supervisor_);
    auto order = wire::decode(*message);
    rank_ = order.shard.place.rank;
    samples_ = order.shard.place.samples();
    replica_ = order.replica;
    watchdog_ = order.watchdog;
    if (parts_.complete) parts_.complete(order.shard);
    post(0, [make_engine = parts_.make_engine, order = std::move(order), context = context_ptr(),
             supervisor = supervisor_](RankWorker& worker) {
      const auto rank = order.shard.place.rank;
      worker.engine = make_engine();
      const auto progress = [&, last = std::chrono::steady_clock::time_point()](std::size_t bytes, std::size_t total) mutable {
        ++worker.progress;
        const auto time = std::chrono::steady_clock::now();
        if (bytes < total && time - last < std::chrono::milliseconds(100)) return;
        last = time;
        tell_from(*context, "Compute", supervisor, Message<messages::LoadProgress>::build([&](messages::LoadProgress::Builder b) {
          b.setRank(rank);
          b.setDoneBytes(bytes);
          b.setTotalBytes(total);
        }));
      };
      const auto loaded = worker.engine->load(order.shard, progress);
      const auto fail = [&](const Error& error) {
        worker.engine.reset();
        tell_from(*context, "Compute", supervisor, failure(GroupEpoch{}, rank, 0, error));
      };
      if (!loaded) return fail(loaded.error());
      const Hash128 none{};
      if (order.model_content != none && loaded->content != none && loaded->content != order.model_content)
        return fail(make_error(ErrorClass::kInvalidRequest, ErrorReason::kBadModelFile,
                               order.shard.model_path + " is another file for rank " + std::to_string(rank) + " than for the gateway"));
      tell_from(*context, "Compute", supervisor, wire::encode_loaded(rank, *loaded, worker.engine->data_address()));
    });
  }

  void on_enter(const Message<messages::EnterEpoch>& message) {
    // EpochLeft or ShardLoaded came before: the compute thread is behind everything of the old epoch.
    epoch_ = GroupEpoch{message->getEpoch()};
    scheduler_ = registry().resolve(message->getScheduler());
    worker_->abort = false;
    failed_ = false;
    post(0, [message, rank = rank_, replica = replica_, supervisor = supervisor_, context = context_ptr()](RankWorker& worker) {
      TROUPE_CHECK(worker.engine != nullptr);
      wire::ShardReadiness ready{GroupEpoch{message->getEpoch()}, rank, {}};
      auto entered = worker.engine->enter_epoch(wire::decode(*message), worker.abort);
      if (!entered) {
        if (!worker.abort) tell_from(*context, "Compute", supervisor, failure(ready.epoch, rank, 0, entered.error()));
        worker.abort = true;
        return;
      }
      ready.facts = std::move(*entered);
      auto* stores = worker.engine->stores();
      worker.stores = stores;
      if (stores == nullptr) return tell_from(*context, "Compute", supervisor, wire::encode(ready));
      ready.host_blocks = stores->host_blocks();
      ready.disk_blocks = stores->disk_blocks();
      report_inventory(stores, {context, ready.epoch, rank, Tier::kHost}, context->registry->find(Role::HOST_TIER, replica));
      report_inventory(stores, {context, ready.epoch, rank, Tier::kDisk}, context->registry->find(Role::DISK_TIER, replica));
      // Behind both: else the first request after a start would miss what the disk has.
      stores->post([ready, stores, supervisor, context]() mutable {
        ready.disk_read_us = stores->time_read(Tier::kDisk);
        tell_from(*context, "Mover", supervisor, wire::encode(ready));
      });
    });
  }

  /// Whose inventory it is, for the mover's thread.
  struct InventoryOf {
    ContextPtr context;
    GroupEpoch epoch;
    std::uint16_t rank = 0;
    Tier tier = Tier::kHost;
  };
  static void report_inventory(exec::RankStores* stores, const InventoryOf& of, const caf::actor& tier) {
    if (stores == nullptr || !tier) return;
    stores->inventory(of.tier, [of, tier = caf::actor_cast<caf::weak_actor_ptr>(tier)](const std::vector<exec::StoredBlock>& blocks) {
      std::vector<kv::InventoryEntry> entries;
      entries.reserve(blocks.size());
      for (const auto& block : blocks) entries.push_back({block.key, block.block, block.age_s});
      const auto receiver = caf::actor_cast<caf::actor>(tier);
      for (auto& page : wire::encode_inventory(of.epoch, of.rank, of.tier, entries))
        tell_from(*of.context, "Mover", receiver, std::move(page));
    });
  }

  void on_report_inventory(messages::ReportInventory::Reader report) {
    if (worker_->stores == nullptr) return;
    const auto tier = static_cast<Tier>(report.getTier());
    worker_->stores.load()->set_incarnation(tier, report.getIncarnation());
    if (epoch_ && leaving_ != epoch_) report_inventory(worker_->stores, {context_ptr(), epoch_, rank_, tier}, sender());
  }

  /// At once, and not behind the steps: order against them is kept by locks and leases.
  void on_moves(messages::MoveBlocks::Reader message) {
    if (message.getEpoch() != epoch_.value) return;
    const auto set = wire::decode(message);
    const auto finished = [issuer = caf::actor_cast<caf::weak_actor_ptr>(current_sender()), context = context_ptr(),
                           rank = rank_](plan::MovesFinished report) {
      report.rank = rank;
      tell_from(*context, "Mover", caf::actor_cast<caf::actor>(issuer), wire::encode(report));
    };
    if (worker_->stores != nullptr && leaving_ != epoch_) return worker_->stores.load()->start(set, finished);
    plan::MovesFinished none;
    none.epoch = set.epoch;
    none.move_set = set.move_set;
    none.failed.resize(set.moves.size());
    std::iota(none.failed.begin(), none.failed.end(), 0U);
    finished(none);
  }

  void on_plan(const Message<messages::ForwardPlan>& message) {
    if (message->getEpoch() != epoch_.value || leaving_ == epoch_) return;
    post(message->getStep(), [message, samples = samples_, scheduler = scheduler_, context = context_ptr()](RankWorker& worker) {
      if (worker.abort) return;
      const auto result = worker.engine->run(wire::decode(*message), worker.abort);
      if (samples) tell_from(*context, "Compute", scheduler, wire::encode(result));
    });
  }

  void on_leave(GroupEpoch epoch) {
    leaving_ = epoch;
    worker_->abort = true;
    post(0, [epoch, rank = rank_, supervisor = supervisor_, context = context_ptr()](RankWorker& worker) {
      if (worker.stores != nullptr) worker.stores.load()->end_epoch();
      if (worker.engine) worker.engine->leave_epoch();
      tell_from(*context, "Compute", supervisor, Message<messages::EpochLeft>::build([&](messages::EpochLeft::Builder left) {
        left.setEpoch(epoch.value);
        left.setRank(rank);
        if (worker.engine) left.setDataAddress(wire::to_data(worker.engine->data_address()));
      }));
    });
  }

  /// Looks at the compute thread a few times a period while it has work; an idle shard sets no timers.
  void watch() {
    if (watching_ || watchdog_.count() == 0) return;
    watching_ = true;
    seen_progress_ = worker_->progress;
    quiet_watches_ = 0;
    delayed_send(this, watchdog_ / kWatchesPerPeriod, WatchAtom::value);
  }

  void on_watch() {
    watching_ = false;
    if (!worker_->busy()) return;
    if (const auto progress = worker_->progress.load(); progress != seen_progress_) {
      watch();
      return;
    }
    if (++quiet_watches_ >= kWatchesPerPeriod && !failed_) {
      failed_ = true;
      worker_->abort = true;
      log(base::LogLevel::kError, "step_timeout", "epoch=" + std::to_string(epoch_.value));
      tell(supervisor_, failure(epoch_, rank_, 0, fault(ErrorReason::kWatchdog, "a step took longer than the watchdog allows")));
    }
    watching_ = true;
    delayed_send(this, watchdog_ / kWatchesPerPeriod, WatchAtom::value);
  }

  ShardDependencies parts_;
  std::shared_ptr<RankWorker> worker_ = std::make_shared<RankWorker>();
  caf::actor supervisor_, scheduler_;
  std::uint16_t rank_ = 0;
  bool samples_ = true;
  std::uint32_t replica_ = 0;
  GroupEpoch epoch_, leaving_;
  std::chrono::milliseconds watchdog_{0};
  bool watching_ = false, failed_ = false;
  std::uint64_t seen_progress_ = 0;
  int quiet_watches_ = 0;
};

}  // namespace

caf::actor spawn_shard(caf::actor_system& system, ShardDependencies dependencies) {
  return system.spawn<ShardActor>(std::move(dependencies));
}

}  // namespace troupe::actors
