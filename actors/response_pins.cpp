#include "actors/response_pins.h"

#include "runtime/base/hash.h"

#include <set>

namespace troupe::actors {

std::uint64_t pin_number(const Hash128& owner, const std::string& id) { return base::Hasher().add(owner).add(id).finish().low; }

const ResponsePins::Active* ResponsePins::find(const session::PinnedResponse& pin) const {
  const auto found = active_.find({pin.owner, pin.id});
  return found == active_.end() ? nullptr : &found->second;
}

void ResponsePins::add(const session::PinnedResponse& pin, const Hash128& domain, std::vector<BlockKey> keys) {
  active_[{pin.owner, pin.id}] = {pin_number(pin.owner, pin.id), domain, std::move(keys)};
}

std::vector<ResponsePins::Active> ResponsePins::keep_only(const std::vector<session::PinnedResponse>& pins) {
  std::set<std::pair<Hash128, std::string>> kept;
  for (const auto& pin : pins) kept.emplace(pin.owner, pin.id);
  std::vector<Active> gone;
  for (auto entry = active_.begin(); entry != active_.end();) {
    const bool stays = kept.contains(entry->first);
    if (!stays) gone.push_back(std::move(entry->second));
    entry = stays ? std::next(entry) : active_.erase(entry);
  }
  return gone;
}

}  // namespace troupe::actors
