#include "runtime/collective/ucx_worker.h"

#include "messages/error_reasons.h"
#include "runtime/base/descriptor.h"
#include "runtime/collective/left_segments.h"

#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <chrono>
#include <span>
#include <thread>
#include <utility>
#include <vector>

namespace troupe::collective {
namespace {
using Setting = std::pair<const char*, const char*>;
// Always: no rendezvous, since that takes answers of the peer, which come when it polls next, half a millisecond later each; bytes that are
// sent at once are as fast here. A peer that died is looked for once a second where its connection does not tell.
constexpr Setting kAlways[] = {{"RNDV_THRESH", "inf"}, {"KEEPALIVE_INTERVAL", "1s"}};
// Segments of one host are reached by descriptors in /proc (the default), so that a killed process leaves no file behind. The queue holds
// 4 MiB (of 8 KiB each) that a peer has not taken yet: with the 512 KiB of the default, ranks that poll now and then wait for each other.
constexpr Setting kSharedMemory[] = {{"TLS", "posix"}, {"MM_ERROR_HANDLING", "y"}, {"MM_FIFO_SIZE", "512"}};
// A connect() that waits for an answer would not see the abort flag. One that gets none ends after some 3 s: while a link is cut, ranks
// meet in vain, and soon again once it is back.
constexpr Setting kTcp[] = {{"TLS", "tcp"}, {"CONN_NB", "y"}, {"TCP_SYN_CNT", "1"}};
// An interface that was made a moment before is up when its other end is.
constexpr std::chrono::milliseconds kComesUp{2000}, kLooksAgain{20};

bool is_running(const std::string& interface) {
  ifreq request{};
  interface.copy(request.ifr_name, IFNAMSIZ - 1);
  const base::Descriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  constexpr short kRunning = IFF_UP | IFF_RUNNING;
  return socket && ::ioctl(socket.get(), SIOCGIFFLAGS, &request) == 0 && (request.ifr_flags & kRunning) == kRunning;
}

Status wait_for_interface(const std::string& interface) {
  const auto refused = [](const std::string& what) {
    return make_error(ErrorClass::kInvalidRequest, ErrorReason::kBadConfig, what, "interface");
  };
  if (if_nametoindex(interface.c_str()) == 0) return refused("there is no network interface '" + interface + "'");
  const auto deadline = std::chrono::steady_clock::now() + kComesUp;
  while (!is_running(interface)) {
    if (std::chrono::steady_clock::now() > deadline)
      return refused("network interface '" + interface + "' is down: `ip link set " + interface + " up` at both ends of the link");
    std::this_thread::sleep_for(kLooksAgain);
  }
  return ok_status();
}

}  // namespace

Result<std::unique_ptr<UcxWorker>> UcxWorker::open(const std::string& interface) {
  const Result<const UcxLibrary*> library = ucx_library();
  if (!library) return library.error();
  if (interface.empty())
    remove_left_segments();  // this rank's predecessor may have been killed in its start
  else if (Status status = wait_for_interface(interface); !status)
    return status.error();
  std::unique_ptr<UcxWorker> worker(new UcxWorker(*library.value()));
  worker->interface_ = interface;
  if (Status status = worker->make_context(interface); !status) return status.error();
  if (Status status = worker->make_worker(); !status) return status.error();
  return worker;
}

Error UcxWorker::failed(const std::string& what, ucs_status_t status) const {
  return make_error(ErrorClass::kUnavailable, ErrorReason::kBadConfig, what + ": " + ucx_.ucs_status_string(status), "transport");
}

Status UcxWorker::make_context(const std::string& interface) {
  ucp_config_t* config = nullptr;
  if (const ucs_status_t status = ucx_.ucp_config_read(nullptr, nullptr, &config); status != UCS_OK) return failed("UCX config", status);
  const auto released = [this, config](Status status) {
    ucx_.ucp_config_release(config);
    return status;
  };
  std::vector<Setting> settings(std::begin(kAlways), std::end(kAlways));
  const std::span<const Setting> chosen = interface.empty() ? std::span<const Setting>(kSharedMemory) : kTcp;
  settings.insert(settings.end(), chosen.begin(), chosen.end());
  if (!interface.empty()) settings.emplace_back("NET_DEVICES", interface.c_str());
  for (const auto& [name, value] : settings) {
    if (const ucs_status_t status = ucx_.ucp_config_modify(config, name, value); status != UCS_OK)
      return released(failed(std::string("UCX setting ") + name, status));
  }
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_TAG;
  const ucs_status_t status = ucx_.ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context_);
  return released(status == UCS_OK ? ok_status()
                                   : failed("UCX finds no transport" + (interface.empty() ? "" : " on " + interface), status));
}

Status UcxWorker::make_worker() {
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SINGLE;
  if (const ucs_status_t status = ucx_.ucp_worker_create(context_, &params, &worker_); status != UCS_OK)
    return failed(interface_.empty() ? "UCX worker, which needs some 10 MiB of shared memory for each rank (look at `df /dev/shm`; for a "
                                       "container, --shm-size)"
                                     : "UCX worker",
                  status);
  ucp_address_t* bytes = nullptr;
  std::size_t length = 0;
  if (const ucs_status_t status = ucx_.ucp_worker_get_address(worker_, &bytes, &length); status != UCS_OK)
    return failed("UCX address", status);
  address_.assign(reinterpret_cast<const char*>(bytes), length);
  ucx_.ucp_worker_release_address(worker_, bytes);
  return ok_status();
}

UcxWorker::~UcxWorker() {
  if (worker_ != nullptr) ucx_.ucp_worker_destroy(worker_);
  if (context_ != nullptr) ucx_.ucp_cleanup(context_);
}

}  // namespace troupe::collective
