// TierMover: carries blocks between the stores of a rank, on the one thread that waits for disks. A set of moves is what one message
// (MoveBlocks) asks for; its end is what MovesFinished reports. Sets go in order of
// arrival, those of requests before background ones, in batches of a few MiB: a background set yields after a batch. The queue is
// bounded in moves; what does not fit is refused at once. A move that fails for any reason is a miss of its block, nothing else.
// Owner: the rank. Thread: all calls from any; `finished` and tasks run on the mover's thread, must not throw, and come once each.
// Without a thread of its own (tests of actors) the owner drives it by run_one().
// The stores must live longer; those that only one thread may touch belong to the mover from its making on.
#pragma once
#include "runtime/exec/tier_store.h"
#include "runtime/plan/forward_plan.h"

#include <array>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace troupe::exec {

struct MovesDone {
  std::vector<std::uint32_t> failed;  // indices of moves, ascending
  std::uint32_t micros = 0;           // of reading and writing, without the wait in the queue
  std::uint64_t bytes = 0;            // moved
  std::optional<Error> error;         // of the first failure that has one
};

struct MoveOrder {
  std::vector<plan::BlockMove> moves;  // whole blocks
  std::vector<BlockKey> keys;          // one a move
  bool background = false;             // write-down: behind all others
  std::function<void(MovesDone)> finished;
};

class TierMover {
 public:
  /// By Tier; null where the rank has none. All have blocks of one size.
  using Stores = std::array<TierStore*, 3>;
  using Ticket = std::uint64_t;  // never 0
  enum class Drive { kThread, kByHand };
  static constexpr std::size_t kMostMoves = 65'536, kBatchBytes = std::size_t{8} << 20, kBackgroundBatchBytes = std::size_t{2} << 20;
  /// Whether somebody computes for whom this thread should be small; any thread, must not block. Empty: never.
  using Busy = std::function<bool()>;

  explicit TierMover(const Stores& stores, std::size_t most_moves = kMostMoves, Drive drive = Drive::kThread, Busy busy = {});
  /// Ends like cancel_all(), and waits for the running batch.
  ~TierMover();
  TierMover(const TierMover&) = delete;
  TierMover& operator=(const TierMover&) = delete;

  /// 0: the queue is full; `finished` is not called.
  Ticket submit(MoveOrder order);
  /// Moves that have not begun fail; the batch that runs ends as it does. A set that has ended: nothing.
  void cancel(Ticket ticket);
  void cancel_all();
  /// Runs on the mover's thread once all sets that were submitted before have ended: an inventory, blocks to drop.
  void post(std::function<void()> task);
  /// Returns when nothing waits or runs, and all ends have been told. Not from the mover's thread.
  void wait_until_idle();
  /// Drive::kByHand: runs the next batch or task; false: nothing waits.
  bool run_one();

 private:
  struct Work {
    Ticket ticket = 0;
    MoveOrder order;
    std::size_t next = 0;  // first move that has not begun
    MovesDone done;
    bool cancelled = false;
    std::function<void()> task;  // instead of an order
  };
  void run();
  bool idle() const { return urgent_.empty() && background_.empty(); }
  void rest(std::unique_lock<std::mutex>& lock);
  void give_way(std::unique_lock<std::mutex>& lock);
  bool must_go_on() const;
  void step(std::unique_lock<std::mutex>& lock);
  void run_batch(Work& work);
  void move(Work& work, std::size_t first, std::size_t count);
  static void fail_rest(Work& work);
  static void fail(Work& work, std::size_t index, const Status& why);

  const Stores stores_;
  const std::size_t block_bytes_, most_moves_;
  const Busy busy_;
  std::vector<std::byte> staging_;  // a batch
  std::vector<BlockRead> reads_;
  std::vector<BlockWrite> writes_;

  std::mutex mutex_;
  std::condition_variable wake_, idle_;
  std::deque<std::shared_ptr<Work>> urgent_, background_;
  std::size_t queued_moves_ = 0;
  Ticket last_ticket_ = 0;
  bool running_ = false;  // a batch, a task, or the telling of an end
  bool stop_ = false;
  std::chrono::nanoseconds used_{0};  // CPU time of the last batch, where it was of the background
  std::thread thread_;                // none with Drive::kByHand
};

}  // namespace troupe::exec
