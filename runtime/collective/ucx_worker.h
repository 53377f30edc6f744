// UcxWorker: one UCX context and worker, for one epoch: and which transports it may use.
// Part of a UCX port and then of its transport; the compute thread, which alone calls UCX for it.
#pragma once
#include "messages/error.h"
#include "runtime/collective/ucx_library.h"

#include <ucp/api/ucp.h>
#include <memory>
#include <string>

namespace troupe::collective {

class UcxWorker {
 public:
  /// `interface` as in TransportSpec: TCP over it alone, or shared memory where it is empty.
  static Result<std::unique_ptr<UcxWorker>> open(const std::string& interface);
  ~UcxWorker();
  UcxWorker(const UcxWorker&) = delete;
  UcxWorker& operator=(const UcxWorker&) = delete;

  const UcxLibrary& library() const { return ucx_; }
  ucp_worker_h handle() const { return worker_; }
  const std::string& address() const { return address_; }
  const std::string& interface() const { return interface_; }

 private:
  explicit UcxWorker(const UcxLibrary& ucx) : ucx_(ucx) {}
  Error failed(const std::string& what, ucs_status_t status) const;
  Status make_context(const std::string& interface);
  Status make_worker();

  const UcxLibrary& ucx_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  std::string address_, interface_;
};

}  // namespace troupe::collective
