// UcxPeers: the endpoints of one epoch, and who of them is gone. They are closed before their worker goes.
// Part of a UCX port while it meets and then of its transport; the compute thread.
#pragma once
#include "runtime/collective/ucx_worker.h"

#include <ucp/api/ucp.h>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace troupe::collective {

class UcxPeers {
 public:
  UcxPeers(std::unique_ptr<UcxWorker> worker, std::size_t ranks, std::size_t rank);
  /// Without a word to anybody.
  ~UcxPeers();
  UcxPeers(const UcxPeers&) = delete;
  UcxPeers& operator=(const UcxPeers&) = delete;

  bool connect(std::size_t rank, const std::string& address);
  /// Advances what is under way with all peers, for a bounded time; false: nothing moved.
  bool progress();
  /// Requests that end when all that was sent so far is with the kernel or the peer; those that are not yet. The caller frees them.
  std::vector<void*> begin_flush();
  /// Waits for that, but no longer than `patience`; a dead peer takes nothing.
  void flush(std::chrono::milliseconds patience) { finish(begin_flush(), patience); }

  const UcxLibrary& library() const { return ucx_; }
  ucp_worker_h worker() const { return worker_->handle(); }
  const std::string& interface() const { return worker_->interface(); }
  std::size_t size() const { return peers_.size(); }
  std::size_t rank() const { return rank_; }
  ucp_ep_h endpoint(std::size_t rank) const { return peers_[rank].endpoint; }
  /// UCS_OK, or how the connection broke.
  ucs_status_t status(std::size_t rank) const { return peers_[rank].status; }

 private:
  struct Peer {
    ucp_ep_h endpoint = nullptr;
    ucs_status_t status = UCS_OK;
  };
  void finish(std::vector<void*> requests, std::chrono::milliseconds patience);

  std::unique_ptr<UcxWorker> worker_;
  const UcxLibrary& ucx_;
  std::vector<Peer> peers_;  // by rank; the own place is empty
  std::size_t rank_;
};

}  // namespace troupe::collective
