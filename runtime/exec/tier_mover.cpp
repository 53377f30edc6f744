#include "runtime/exec/tier_mover.h"

#include "messages/error_reasons.h"

#include <time.h>

#include <algorithm>
#include <exception>
#include <utility>

namespace troupe::exec {
namespace {

constexpr int kPause = 10;                     // times as long as the work of an idle time
constexpr int kGiveWay = 100;                  // times as long as the CPU time of a batch of write-down, while others compute
constexpr std::chrono::milliseconds kLook{5};  // whether they still do

std::chrono::nanoseconds cpu_time() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

std::size_t common_block_bytes(const TierMover::Stores& stores) {
  std::size_t bytes = 0;
  for (const TierStore* store : stores) {
    if (store == nullptr) continue;
    TROUPE_CHECK(bytes == 0 || bytes == store->block_bytes());
    bytes = store->block_bytes();
  }
  TROUPE_CHECK(bytes > 0);
  return bytes;
}

Status cancelled_moves() { return make_error(ErrorClass::kCancelled, ErrorReason::kCancelled, "the moves were cancelled"); }
Status broken_move(const char* why) { return make_error(ErrorClass::kInternal, ErrorReason::kUnclassified, why); }

}  // namespace

TierMover::TierMover(const Stores& stores, std::size_t most_moves, Drive drive, Busy busy)
    : stores_(stores),
      block_bytes_(common_block_bytes(stores)),
      most_moves_(most_moves),
      busy_(std::move(busy)),
      staging_(std::max<std::size_t>(kBatchBytes / block_bytes_, 1) * block_bytes_),
      thread_(drive == Drive::kThread ? std::thread([this] { run(); }) : std::thread()) {}

TierMover::~TierMover() {
  {
    const std::lock_guard guard(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable())
    thread_.join();
  else
    wait_until_idle();
}

TierMover::Ticket TierMover::submit(MoveOrder order) {
  TROUPE_CHECK(order.keys.size() == order.moves.size() && order.finished);
  auto work = std::make_shared<Work>();
  work->order = std::move(order);
  Ticket ticket = 0;
  {
    const std::lock_guard guard(mutex_);
    if (work->order.moves.size() > most_moves_ - queued_moves_) return 0;
    queued_moves_ += work->order.moves.size();
    ticket = work->ticket = ++last_ticket_;
    (work->order.background ? background_ : urgent_).push_back(std::move(work));
  }
  wake_.notify_one();
  return ticket;
}

void TierMover::post(std::function<void()> task) {
  auto work = std::make_shared<Work>();
  work->task = std::move(task);
  {
    const std::lock_guard guard(mutex_);
    background_.push_back(std::move(work));  // behind all that waits there, and what is urgent goes first anyway
  }
  wake_.notify_one();
}

void TierMover::cancel(Ticket ticket) {
  const std::lock_guard guard(mutex_);
  for (auto* queue : {&urgent_, &background_})
    for (const auto& work : *queue)
      if (work->ticket == ticket && ticket != 0) work->cancelled = true;
  wake_.notify_one();
}

void TierMover::cancel_all() {
  const std::lock_guard guard(mutex_);
  for (auto* queue : {&urgent_, &background_})
    for (const auto& work : *queue) work->cancelled = !work->task;
  wake_.notify_one();
}

void TierMover::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (!idle()) {
      step(lock);
      give_way(lock);
      continue;
    }
    if (stop_) return;  // and nothing is left to be told
    rest(lock);
  }
}

bool TierMover::run_one() {
  std::unique_lock lock(mutex_);
  if (idle()) return false;
  step(lock);
  return true;
}

void TierMover::wait_until_idle() {
  if (!thread_.joinable()) {
    while (run_one()) {
    }
    return;
  }
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return idle() && !running_; });
}

/// Until there is work, stores do what can wait; with pauses, since on a machine whose cores all compute their time would be missing there.
void TierMover::rest(std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  const auto start = std::chrono::steady_clock::now();
  bool more = false;
  for (TierStore* store : stores_) more |= store != nullptr && store->tidy();
  const auto pause = kPause * (std::chrono::steady_clock::now() - start);
  lock.lock();
  const auto work = [this] { return stop_ || !idle(); };
  if (more)
    wake_.wait_for(lock, pause, work);
  else
    wake_.wait(lock, work);
}

/// Behind a batch of write-down: where all cores compute, a step lasts as long as the thread that was held up most, so this thread takes a
/// hundredth of one core then. What waits is written when there is time, or lost if it must make room before.
void TierMover::give_way(std::unique_lock<std::mutex>& lock) {
  const auto until = std::chrono::steady_clock::now() + kGiveWay * std::exchange(used_, {});
  while (busy_ && !must_go_on() && std::chrono::steady_clock::now() < until && busy_())
    wake_.wait_for(lock, kLook, [this] { return must_go_on(); });
}

bool TierMover::must_go_on() const { return stop_ || !urgent_.empty() || (!background_.empty() && background_.front()->cancelled); }

/// A set stays at the head of its queue until its last batch has run.
void TierMover::step(std::unique_lock<std::mutex>& lock) {
  auto& queue = urgent_.empty() ? background_ : urgent_;
  const std::shared_ptr<Work> work = queue.front();
  const bool cancelled = work->cancelled || stop_;
  running_ = true;
  lock.unlock();
  if (work->task)
    work->task();
  else if (cancelled)
    fail_rest(*work);
  else if (work->next < work->order.moves.size())
    run_batch(*work);
  lock.lock();
  if (work->task || work->next >= work->order.moves.size()) {
    queue.pop_front();
    queued_moves_ -= work->order.moves.size();
    lock.unlock();
    if (!work->task) work->order.finished(std::move(work->done));
    lock.lock();
  }
  running_ = false;
  if (idle()) idle_.notify_all();
}

/// The next moves between one pair of tiers, as many as fit in the staging memory.
void TierMover::run_batch(Work& work) {
  const auto& moves = work.order.moves;
  const std::size_t bytes = work.order.background ? std::min(kBackgroundBatchBytes, staging_.size()) : staging_.size();
  const std::size_t first = work.next, most = std::max<std::size_t>(bytes / block_bytes_, 1);
  std::size_t count = 0;
  while (first + count < moves.size() && count < most && moves[first + count].from == moves[first].from &&
         moves[first + count].to == moves[first].to)
    ++count;
  const auto start = std::chrono::steady_clock::now();
  const auto cpu_start = cpu_time();
  try {
    move(work, first, count);
  } catch (const std::exception& broken) {  // no memory, say; this thread is no actor that could die for it
    for (std::size_t i = first; i < first + count; ++i) fail(work, i, broken_move(broken.what()));
  }
  const auto spent = std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - start).count();
  work.done.micros += static_cast<std::uint32_t>(spent);
  work.next = first + count;
  if (work.order.background) used_ = cpu_time() - cpu_start;
}

void TierMover::move(Work& work, std::size_t first, std::size_t count) {
  const auto store_of = [this](Tier tier) {
    const auto index = static_cast<std::size_t>(tier);
    return index < stores_.size() ? stores_[index] : nullptr;
  };
  TierStore* const source = store_of(work.order.moves[first].from);
  TierStore* const target = store_of(work.order.moves[first].to);
  if (source == nullptr || target == nullptr) {
    for (std::size_t i = first; i < first + count; ++i) fail(work, i, broken_move("this rank has no such tier"));
    return;
  }
  reads_.clear();
  writes_.clear();
  for (std::size_t i = 0; i < count; ++i) {
    const plan::BlockMove& move = work.order.moves[first + i];
    const bool whole = move.tokens == kBlockTokens;  // a part of a block has no key
    reads_.push_back({move.source, whole ? work.order.keys[first + i] : BlockKey{}, staging_.data() + i * block_bytes_, false});
  }
  const Status read = source->get(reads_);
  for (std::size_t i = 0; i < count; ++i)
    if (reads_[i].done) writes_.push_back({work.order.moves[first + i].target, reads_[i].key, reads_[i].to, false});
  const Status written = target->put(writes_);
  for (std::size_t i = 0, w = 0; i < count; ++i) {
    if (!reads_[i].done)
      fail(work, first + i, read);
    else if (!writes_[w++].done)
      fail(work, first + i, written);
    else
      work.done.bytes += block_bytes_;
  }
}

void TierMover::fail(Work& work, std::size_t index, const Status& why) {
  work.done.failed.push_back(static_cast<std::uint32_t>(index));
  if (!why && !work.done.error) work.done.error = why.error();
}

void TierMover::fail_rest(Work& work) {
  for (; work.next < work.order.moves.size(); ++work.next) fail(work, work.next, cancelled_moves());
}

}  // namespace troupe::exec
