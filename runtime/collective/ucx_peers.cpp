#include "runtime/collective/ucx_peers.h"

#include <utility>

namespace troupe::collective {

using namespace std::chrono_literals;

UcxPeers::UcxPeers(std::unique_ptr<UcxWorker> worker, std::size_t ranks, std::size_t rank)
    : worker_(std::move(worker)), ucx_(worker_->library()), peers_(ranks), rank_(rank) {}

bool UcxPeers::connect(std::size_t rank, const std::string& address) {
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = [](void* peer, ucp_ep_h, ucs_status_t status) { static_cast<Peer*>(peer)->status = status; };
  params.err_handler.arg = &peers_[rank];
  return !address.empty() && ucx_.ucp_ep_create(worker(), &params, &peers_[rank].endpoint) == UCS_OK;
}

// One round takes few events, and a poll comes only every half a millisecond: a fast link needs several.
bool UcxPeers::progress() {
  constexpr unsigned kRounds = 64;
  unsigned rounds = 0;
  while (rounds < kRounds && ucx_.ucp_worker_progress(worker()) != 0) ++rounds;
  return rounds != 0;
}

void UcxPeers::finish(std::vector<void*> requests, std::chrono::milliseconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  for (void* request : requests) {
    if (!UCS_PTR_IS_PTR(request)) continue;
    while (ucx_.ucp_request_check_status(request) == UCS_INPROGRESS && std::chrono::steady_clock::now() < end)
      ucx_.ucp_worker_progress(worker());
    ucx_.ucp_request_free(request);
  }
}

std::vector<void*> UcxPeers::begin_flush() {
  std::vector<void*> requests;
  const ucp_request_param_t params{};
  for (const Peer& peer : peers_) {
    if (peer.endpoint == nullptr || peer.status != UCS_OK) continue;
    if (void* request = ucx_.ucp_ep_flush_nbx(peer.endpoint, &params); UCS_PTR_IS_PTR(request)) requests.push_back(request);
  }
  return requests;
}

UcxPeers::~UcxPeers() {
  std::vector<void*> requests;
  ucp_request_param_t params{};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  params.flags = UCP_EP_CLOSE_FLAG_FORCE;
  for (Peer& peer : peers_) {
    if (peer.endpoint != nullptr) requests.push_back(ucx_.ucp_ep_close_nbx(std::exchange(peer.endpoint, nullptr), &params));
  }
  finish(std::move(requests), 50ms);
}

}  // namespace troupe::collective
