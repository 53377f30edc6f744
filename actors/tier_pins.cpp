#include "actors/tier_pins.h"

#include "actors/wire/common.h"

#include <algorithm>

namespace troupe::actors {

Message<messages::Pinned> join_pinned(const PinnedRun& own, const Message<messages::Pinned>* below) {
  // Ends of the runs, each at least as far as the one of the tier above.
  std::uint32_t device = 0, host = 0, disk = 0;
  if (below != nullptr) {
    host = (**below).getUsage().getHost();
    disk = host + (**below).getUsage().getDisk();
  }
  if (own.tier == Tier::kDevice) device = own.run;
  if (own.tier == Tier::kHost) host = own.run;
  if (own.tier == Tier::kDisk) disk = own.run;
  host = std::max(host, device);
  disk = std::max(disk, host);
  return Message<messages::Pinned>::build([&](messages::Pinned::Builder out) {
    out.setPin(own.pin);
    auto usage = out.initUsage();
    usage.setDevice(device);
    usage.setHost(host - device);
    usage.setDisk(disk - host);
    usage.setComputed(own.path - std::min(own.path, disk));
    out.setBytes(own.bytes + (below != nullptr ? (**below).getBytes() : 0));
    if (own.error) wire::write(*own.error, out.initError());
  });
}

std::optional<TierPins::Waiting> TierPins::take(std::uint64_t pin) {
  const auto found = std::find_if(waiting_.begin(), waiting_.end(), [&](const Waiting& waiting) { return waiting.own.pin == pin; });
  if (found == waiting_.end()) return std::nullopt;
  Waiting taken = std::move(*found);
  waiting_.erase(found);
  return taken;
}

}  // namespace troupe::actors
