#include "runtime/collective/loopback_transport.h"

#include "messages/error_reasons.h"
#include "runtime/collective/roll_call.h"

#include <cstring>
#include <thread>

namespace troupe::collective {

// Both with the mutex held.
std::string LoopbackHub::add(const std::shared_ptr<Box>& box) {
  std::string address = "loopback " + std::to_string(++added_);
  std::erase_if(boxes_, [](const auto& entry) { return entry.second.expired(); });
  boxes_[address] = box;
  return address;
}
std::shared_ptr<LoopbackHub::Box> LoopbackHub::find(const std::string& address) {
  const auto found = boxes_.find(address);
  return found == boxes_.end() ? nullptr : found->second.lock();
}

namespace {
using Box = LoopbackHub::Box;
using Message = LoopbackHub::Message;

class LoopbackTransport final : public Transport {
 public:
  LoopbackTransport(std::shared_ptr<LoopbackHub> hub, std::vector<std::shared_ptr<Box>> boxes, std::size_t rank)
      : hub_(std::move(hub)), boxes_(std::move(boxes)), rank_(rank) {}

  ~LoopbackTransport() override {
    const std::lock_guard lock(hub_->mutex());
    boxes_[rank_]->open = false;
    for (const Sent& sent : sent_) {  // who left may still be heard
      if (sent.message->taken) continue;
      sent.message->kept.assign(sent.message->bytes.begin(), sent.message->bytes.end());
      sent.message->bytes = sent.message->kept;
    }
  }

  std::size_t rank() const override { return rank_; }
  std::size_t ranks() const override { return boxes_.size(); }

  void send(std::size_t peer, Channel channel, std::span<const std::byte> bytes, Transfer& transfer) override {
    TROUPE_CHECK(peer < ranks() && peer != rank_);
    transfer.done = false;
    sent_.push_back({peer, std::make_shared<Message>(Message{bytes, {}}), &transfer});
    const std::lock_guard lock(hub_->mutex());
    boxes_[peer]->lines[{rank_, channel}].push_back(sent_.back().message);
  }

  void receive(std::size_t peer, Channel channel, std::span<std::byte> bytes, Transfer& transfer) override {
    TROUPE_CHECK(peer < ranks() && peer != rank_);
    transfer.done = false;
    wanted_[{peer, channel}].push_back({bytes, &transfer});
  }

  void progress() override {
    const std::lock_guard lock(hub_->mutex());
    for (auto& [from, wanted] : wanted_) take(boxes_[rank_]->lines[from], wanted, from.first);
    for (const Sent& sent : sent_) {
      if (sent.message->taken)
        end(*sent.transfer);
      else if (!boxes_[sent.peer]->open)
        throw PeerLost("rank " + std::to_string(sent.peer) + " has left");
    }
    std::erase_if(sent_, [](const Sent& sent) { return sent.message->taken; });
  }

  bool left() override { return true; }

 private:
  struct Sent {
    std::size_t peer;
    std::shared_ptr<Message> message;
    Transfer* transfer;
  };
  struct Wanted {
    std::span<std::byte> bytes;
    Transfer* transfer;
  };

  void take(std::deque<std::shared_ptr<Message>>& line, std::deque<Wanted>& wanted, std::size_t peer) {
    for (; !wanted.empty(); wanted.pop_front(), line.pop_front()) {
      if (line.empty()) {
        if (!boxes_[peer]->open) throw PeerLost("rank " + std::to_string(peer) + " has left");
        return;
      }
      const std::span<const std::byte> bytes = line.front()->bytes;
      if (bytes.size() != wanted.front().bytes.size())
        throw PeerLost("rank " + std::to_string(peer) + " sent another length where " + std::to_string(wanted.front().bytes.size()) +
                       " were expected");
      if (!bytes.empty()) std::memcpy(wanted.front().bytes.data(), bytes.data(), bytes.size());
      line.front()->taken = true;
      end(*wanted.front().transfer);
    }
  }

  static void end(Transfer& transfer) {
    transfer.done = true;
    transfer.done_at = std::chrono::steady_clock::now();
  }

  std::shared_ptr<LoopbackHub> hub_;
  std::vector<std::shared_ptr<Box>> boxes_;  // by rank
  std::size_t rank_;
  std::vector<Sent> sent_;
  std::map<std::pair<std::size_t, Channel>, std::deque<Wanted>> wanted_;
};

class LoopbackPort final : public Port {
 public:
  explicit LoopbackPort(std::shared_ptr<LoopbackHub> hub) : hub_(std::move(hub)) {
    const std::lock_guard lock(hub_->mutex());
    address_ = hub_->add(box_);
  }
  ~LoopbackPort() override { leave(); }
  std::string address() const override { return address_; }

  Result<std::unique_ptr<Transport>> meet(const Meeting& meeting, const std::atomic<bool>& abort) override {
    TROUPE_CHECK(box_ != nullptr);
    RollCall call(meeting);
    std::vector<std::shared_ptr<Box>> boxes;
    const Status met = gather(meeting, call, boxes, abort);
    if (!met) {
      leave();
      return met.error();
    }
    box_.reset();
    return std::unique_ptr<Transport>(std::make_unique<LoopbackTransport>(hub_, std::move(boxes), meeting.rank));
  }

 private:
  Status gather(const Meeting& meeting, RollCall& call, std::vector<std::shared_ptr<Box>>& boxes, const std::atomic<bool>& abort) {
    std::unique_lock lock(hub_->mutex());
    for (std::size_t rank = 0; rank < meeting.addresses.size(); ++rank) {
      boxes.push_back(rank == meeting.rank ? box_ : hub_->find(meeting.addresses[rank]));
      if (boxes.back() == nullptr) return peer_gone(rank);
      if (rank != meeting.rank) boxes.back()->hellos.push_back(call.hello());
    }
    for (;;) {
      for (const std::string& hello : std::exchange(box_->hellos, {})) {
        if (Status status = call.answer(std::as_bytes(std::span(hello))); !status) return status;
      }
      if (call.complete()) return ok_status();
      if (abort) return meeting_aborted(call);
      if (!boxes[call.missing_rank()]->open) return peer_gone(call.missing_rank());
      lock.unlock();
      std::this_thread::sleep_for(std::chrono::microseconds(50));
      lock.lock();
    }
  }

  void leave() {
    if (box_ == nullptr) return;
    const std::lock_guard lock(hub_->mutex());
    box_->open = false;
    box_.reset();
  }

  std::shared_ptr<LoopbackHub> hub_;
  std::shared_ptr<Box> box_ = std::make_shared<Box>();
  std::string address_;
};
}  // namespace

Result<std::unique_ptr<Port>> open_loopback_port(const TransportSpec& spec) {
  if (spec.hub == nullptr)
    return make_error(ErrorClass::kInvalidRequest, ErrorReason::kBadConfig, "the transport 'loopback' needs all ranks in one process",
                      "transport");
  return std::unique_ptr<Port>(std::make_unique<LoopbackPort>(spec.hub));
}

}  // namespace troupe::collective
