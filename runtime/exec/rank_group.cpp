#include "runtime/exec/rank_group.h"

#include "messages/error_reasons.h"
#include "runtime/base/log.h"
#include "runtime/collective/transport_table.h"

#include <utility>

namespace troupe::exec {
namespace {

Error not_met(std::string why) {
  return make_error(ErrorClass::kGroupLost, ErrorReason::kComputeFault, "the engine had to restart", {}, "ranks did not meet: " + why);
}

}  // namespace

Result<std::unique_ptr<RankGroup>> RankGroup::open(const base::ShardPlace& place, const collective::TransportSpec& transport,
                                                   kernels::Backend& backend, unsigned spin_us) {
  auto port = collective::open_port(transport);
  if (!port) return port.error();
  return std::unique_ptr<RankGroup>(new RankGroup(place, transport, backend, spin_us, std::move(*port)));
}

RankGroup::RankGroup(const base::ShardPlace& place, collective::TransportSpec transport, kernels::Backend& backend, unsigned spin_us,
                     std::unique_ptr<collective::Port> port)
    : place_(place), transport_(std::move(transport)), backend_(backend), spin_us_(spin_us), port_(std::move(port)) {}

Result<MeasuredGroup> RankGroup::meet(const collective::Meeting& meeting, std::optional<kernels::WireFormat> format, model::Model& model,
                                      kernels::KvCache& kv, const std::atomic<bool>& abort) {
  if (!port_) return not_met("no port is open");
  if (meeting.addresses.size() != place_.shape.ranks())
    return not_met(std::to_string(meeting.addresses.size()) + " addresses of " + std::to_string(place_.shape.ranks()) + " ranks");
  auto transport = port_->meet(meeting, abort);
  port_.reset();
  if (!transport) return transport.error();
  const collective::CollectiveOptions options{place_, format.value_or(kernels::WireFormat::kBf16), spin_us_};
  collective_ = std::make_unique<collective::Collective>(std::move(*transport), backend_, options, abort);
  try {
    return measure_group(model, backend_, kv, place_, *collective_, format);
  } catch (const collective::Interrupted& interrupted) {
    return not_met(interrupted.what());
  } catch (const collective::PeerLost& lost) {
    return not_met(lost.what());
  }
}

void RankGroup::leave() {
  collective_.reset();
  port_.reset();
  auto port = collective::open_port(transport_);
  if (port)
    port_ = std::move(*port);
  else
    base::log(base::LogLevel::kError, "no_data_port", "reason=" + base::log_value(port.error().client_text));
}

}  // namespace troupe::exec
