// RankGroup: a rank's way to the others of its group: between epochs a port where they find it, within one the Collective.
// Owned by the ShardEngine of a rank that is not alone; compute thread only. Invariant: bytes of one epoch never reach another, since each
// has a port and a transport of its own.
#pragma once
#include "messages/error.h"
#include "runtime/base/shard_place.h"
#include "runtime/collective/collective.h"
#include "runtime/exec/group_speed.h"

#include <atomic>
#include <memory>
#include <optional>
#include <string>

namespace troupe::exec {

class RankGroup {
 public:
  /// `backend` must live longer.
  static Result<std::unique_ptr<RankGroup>> open(const base::ShardPlace& place, const collective::TransportSpec& transport,
                                                 kernels::Backend& backend, unsigned spin_us);
  /// Of the port; empty within an epoch, and where no port could be opened.
  std::string address() const { return port_ ? port_->address() : std::string(); }

  /// Meets the others and measures (measure_group); `abort` is also the flag of all later waits, and must live until leave(). An Error
  /// where that fails; then only leave() may follow.
  Result<MeasuredGroup> meet(const collective::Meeting& meeting, std::optional<kernels::WireFormat> format, model::Model& model,
                             kernels::KvCache& kv, const std::atomic<bool>& abort);
  /// Between meet() and leave(); null else.
  collective::Collective* collective() { return collective_.get(); }
  /// The transport goes, and a new port is opened.
  void leave();

 private:
  RankGroup(const base::ShardPlace& place, collective::TransportSpec transport, kernels::Backend& backend, unsigned spin_us,
            std::unique_ptr<collective::Port> port);

  const base::ShardPlace place_;
  const collective::TransportSpec transport_;
  kernels::Backend& backend_;
  const unsigned spin_us_;
  std::unique_ptr<collective::Port> port_;
  std::unique_ptr<collective::Collective> collective_;
};

}  // namespace troupe::exec
