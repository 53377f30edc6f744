#include "runtime/collective/ucx_transport.h"

#include "messages/error_reasons.h"
#include "runtime/collective/roll_call.h"
#include "runtime/collective/tcp_silence.h"
#include "runtime/collective/ucx_peers.h"

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>

namespace troupe::collective {
namespace {
using namespace std::chrono_literals;

// 32 bits of epoch, 16 of sender, 8 of channel, 8 of kind; of a hello only the kind counts.
enum class Kind : std::uint8_t { kMessage, kHello, kGoodbye };
constexpr std::uint64_t tag_of(Kind kind, GroupEpoch epoch = {}, std::size_t sender = 0, Channel channel = {}) {
  return std::uint64_t{epoch.value} << 32 | std::uint64_t{sender} << 16 | std::uint64_t{static_cast<std::uint8_t>(channel)} << 8 |
         static_cast<std::uint8_t>(kind);
}
constexpr std::uint64_t kWholeTag = ~std::uint64_t{0}, kKindOnly = 0xff;
constexpr ucp_request_param_t kPlain{};

/// As the control plane takes a node for lost (control.timeout_ms).
constexpr std::chrono::milliseconds kSilence{1000};

std::string rank_name(std::size_t rank) { return "rank " + std::to_string(rank); }

class UcxTransport final : public Transport {
 public:
  UcxTransport(std::unique_ptr<UcxPeers> peers, GroupEpoch epoch, const std::atomic<bool>& abort)
      : peers_(std::move(peers)), ucx_(peers_->library()), epoch_(epoch), abort_(abort), goodbyes_(peers_->size()), gone_(peers_->size()) {
    for (std::size_t peer = 0; peer < ranks(); ++peer) {
      if (peer != rank())
        goodbyes_[peer] = ucx_.ucp_tag_recv_nbx(peers_->worker(), nullptr, 0, tag_of(Kind::kGoodbye, epoch_, peer), kWholeTag, &kPlain);
    }
  }

  ~UcxTransport() override {
    if (!abort_ && !lost_) {  // what was sent last shall arrive, and that no more will come
      peers_->flush(200ms);
      for (std::size_t peer = 0; peer < ranks(); ++peer) {
        if (peer == rank() || peers_->status(peer) != UCS_OK) continue;
        drop(ucx_.ucp_tag_send_nbx(peers_->endpoint(peer), nullptr, 0, tag_of(Kind::kGoodbye, epoch_, rank()), &kPlain));
      }
      peers_->flush(50ms);
    }
    for (const Pending& pending : pending_) cancel(pending.request);
    for (void* goodbye : goodbyes_) cancel(goodbye);
    for (void* flush : flushes_) drop(flush);
  }

  std::size_t rank() const override { return peers_->rank(); }
  std::size_t ranks() const override { return peers_->size(); }

  void send(std::size_t peer, Channel channel, std::span<const std::byte> bytes, Transfer& transfer) override {
    TROUPE_CHECK(peer < ranks() && peer != rank());
    void* request =
        ucx_.ucp_tag_send_nbx(peers_->endpoint(peer), bytes.data(), bytes.size(), tag_of(Kind::kMessage, epoch_, rank(), channel), &kPlain);
    post({request, &transfer, peer, std::nullopt});
    unflushed_ = true;
  }

  void receive(std::size_t peer, Channel channel, std::span<std::byte> bytes, Transfer& transfer) override {
    TROUPE_CHECK(peer < ranks() && peer != rank());
    ucp_request_param_t params{};
    params.op_attr_mask = UCP_OP_ATTR_FLAG_NO_IMM_CMPL;  // so that the length can be asked for
    void* request = ucx_.ucp_tag_recv_nbx(peers_->worker(), bytes.data(), bytes.size(), tag_of(Kind::kMessage, epoch_, peer, channel),
                                          kWholeTag, &params);
    post({request, &transfer, peer, bytes.size()});
  }

  void progress() override {
    peers_->progress();
    // Goodbyes are looked at first: what was sent before them is here by then.
    for (std::size_t peer = 0; peer < ranks(); ++peer) {
      if (peer != rank() && !gone_[peer]) gone_[peer] = ended(goodbyes_[peer]) || peers_->status(peer) != UCS_OK;
    }
    std::erase_if(pending_, [this](const Pending& pending) { return settled(pending); });
    for (const Pending& pending : pending_) {
      if (gone_[pending.peer]) lose(pending.peer, peers_->status(pending.peer));
    }
    if (lost_) throw PeerLost(*lost_);
  }

  // UCX calls a message sent when it has a copy, and some of that may wait in the process for the kernel's buffer to have room.
  bool left() override {
    std::erase_if(flushes_, [this](void* flush) {
      const bool over = ended(flush);
      if (over) drop(flush);
      return over;
    });
    if (flushes_.empty() && std::exchange(unflushed_, false)) flushes_ = peers_->begin_flush();
    return flushes_.empty();
  }

 private:
  struct Pending {
    void* request;
    Transfer* transfer;
    std::size_t peer;
    std::optional<std::size_t> expected;  // bytes, of a receive
  };

  void post(const Pending& pending) {
    pending.transfer->done = false;
    if (UCS_PTR_IS_ERR(pending.request)) {
      lose(pending.peer, UCS_PTR_STATUS(pending.request));
      throw PeerLost(*lost_);
    }
    if (pending.request == nullptr)
      end(*pending.transfer);
    else
      pending_.push_back(pending);
  }

  bool settled(const Pending& pending) {
    ucp_tag_recv_info_t info{};
    const ucs_status_t status =
        pending.expected ? ucx_.ucp_tag_recv_request_test(pending.request, &info) : ucx_.ucp_request_check_status(pending.request);
    if (status == UCS_INPROGRESS) return false;
    ucx_.ucp_request_free(pending.request);
    if (pending.expected && (status == UCS_ERR_MESSAGE_TRUNCATED || (status == UCS_OK && info.length != *pending.expected))) {
      if (!lost_) lost_ = rank_name(pending.peer) + " sent another length where " + std::to_string(*pending.expected) + " were expected";
    } else if (status != UCS_OK) {
      lose(pending.peer, status);
    } else {
      end(*pending.transfer);
    }
    return true;
  }

  void lose(std::size_t peer, ucs_status_t status) {
    if (!lost_) lost_ = rank_name(peer) + (status == UCS_OK ? " has left" : std::string(" is lost: ") + ucx_.ucs_status_string(status));
  }
  static void end(Transfer& transfer) {
    transfer.done = true;
    transfer.done_at = std::chrono::steady_clock::now();
  }

  bool ended(void* request) const { return !UCS_PTR_IS_PTR(request) || ucx_.ucp_request_check_status(request) != UCS_INPROGRESS; }
  void drop(void* request) const {
    if (UCS_PTR_IS_PTR(request)) ucx_.ucp_request_free(request);
  }
  void cancel(void* request) const {
    if (UCS_PTR_IS_PTR(request) && !ended(request)) ucx_.ucp_request_cancel(peers_->worker(), request);
    drop(request);
  }

  std::unique_ptr<UcxPeers> peers_;
  const UcxLibrary& ucx_;
  const GroupEpoch epoch_;
  const std::atomic<bool>& abort_;
  std::vector<Pending> pending_;
  std::vector<void*> goodbyes_;  // by rank: receives
  std::vector<bool> gone_;
  std::vector<void*> flushes_;  // under way
  bool unflushed_ = false;      // sent since the last one
  std::optional<std::string> lost_;
};

class UcxPort final : public Port {
 public:
  explicit UcxPort(std::unique_ptr<UcxWorker> worker) : worker_(std::move(worker)), address_(worker_->address()) {}
  std::string address() const override { return address_; }

  Result<std::unique_ptr<Transport>> meet(const Meeting& meeting, const std::atomic<bool>& abort) override {
    TROUPE_CHECK(worker_ != nullptr);
    RollCall call(meeting);
    auto peers = std::make_unique<UcxPeers>(std::move(worker_), meeting.addresses.size(), meeting.rank);
    std::vector<void*> spoken;
    const UcxLibrary& ucx = peers->library();
    const Status met = gather(meeting, call, *peers, spoken, abort);
    for (void* request : spoken) ucx.ucp_request_free(request);
    if (!met) return met.error();
    if (!peers->interface().empty()) bound_tcp_silence(peers->interface(), kSilence);
    return std::unique_ptr<Transport>(std::make_unique<UcxTransport>(std::move(peers), meeting.epoch, abort));
  }

 private:
  static Status gather(const Meeting& meeting, RollCall& call, UcxPeers& peers, std::vector<void*>& spoken,
                       const std::atomic<bool>& abort) {
    const UcxLibrary& ucx = peers.library();
    for (std::size_t rank = 0; rank < peers.size(); ++rank) {
      if (rank == meeting.rank) continue;
      if (!peers.connect(rank, meeting.addresses[rank])) return peer_gone(rank);
      void* request = ucx.ucp_tag_send_nbx(peers.endpoint(rank), call.hello().data(), call.hello().size(), tag_of(Kind::kHello), &kPlain);
      if (UCS_PTR_IS_ERR(request)) return peer_gone(rank);
      if (request != nullptr) spoken.push_back(request);
    }
    const auto sent = [&ucx](void* request) { return ucx.ucp_request_check_status(request) != UCS_INPROGRESS; };
    for (;;) {
      const bool moved = peers.progress();
      if (Status status = hear(peers, call); !status) return status;
      if (call.complete() && std::all_of(spoken.begin(), spoken.end(), sent)) return ok_status();
      if (abort) return meeting_aborted(call);
      for (std::size_t rank = 0; rank < peers.size(); ++rank) {
        if (peers.status(rank) != UCS_OK) return peer_gone(rank);
      }
      if (!moved) std::this_thread::sleep_for(50us);
    }
  }

  static Status hear(UcxPeers& peers, RollCall& call) {
    const UcxLibrary& ucx = peers.library();
    ucp_tag_recv_info_t info{};
    while (ucp_tag_message_h message = ucx.ucp_tag_probe_nb(peers.worker(), tag_of(Kind::kHello), kKindOnly, 1, &info)) {
      if (info.length > RollCall::kHelloBytes) return call.answer({});  // from a stranger; so short ones are here as a whole
      std::byte bytes[RollCall::kHelloBytes];
      void* request = ucx.ucp_tag_msg_recv_nbx(peers.worker(), bytes, sizeof bytes, message, &kPlain);
      const bool received = request == nullptr || (UCS_PTR_IS_PTR(request) && ucx.ucp_request_check_status(request) == UCS_OK);
      if (UCS_PTR_IS_PTR(request)) ucx.ucp_request_free(request);
      if (Status answered = call.answer({bytes, received ? info.length : 0}); !answered) return answered;
    }
    return ok_status();
  }

  std::unique_ptr<UcxWorker> worker_;
  std::string address_;
};
}  // namespace

Result<std::unique_ptr<Port>> open_ucx_port(const TransportSpec& spec) {
  Result<std::unique_ptr<UcxWorker>> worker = UcxWorker::open(spec.interface);
  if (!worker) return worker.error();
  return std::unique_ptr<Port>(std::make_unique<UcxPort>(std::move(*worker)));
}

}  // namespace troupe::collective
