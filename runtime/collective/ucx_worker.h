// UcxWorker: one UCX context and worker, for one epoch: which transports it may use, and that UCX neither prints nor handles signals.
// Part of a UCX port and then of its transport; the compute thread, which alone calls UCX for it.
#pragma once
#include "messages/error.h"

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

  ucp_worker_h handle() const { return worker_; }
  const std::string& address() const { return address_; }

 private:
  UcxWorker() = default;
  Status make_context(const std::string& interface);
  Status make_worker();

  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  std::string address_;
};

}  // namespace troupe::collective
