// Outbox: messages that were sent and not waited for. Each lies here until its bytes have left; places are used again.
// Part of a Collective; the compute thread.
#pragma once
#include "runtime/collective/transport.h"
#include "runtime/collective/wire_buffer.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <vector>

namespace troupe::collective {

class Outbox {
 public:
  /// More would mean that a receiver does not take what it is sent: then the sender waits.
  static constexpr std::size_t kMessages = 256;

  struct Place {
    WireBuffer buffer;
    std::vector<Transfer> transfers;  // one a receiver
    bool sent() const {
      return std::all_of(transfers.begin(), transfers.end(), [](const Transfer& transfer) { return transfer.done; });
    }
  };

  bool full() const { return places_.size() >= kMessages && std::none_of(places_.begin(), places_.end(), std::mem_fn(&Place::sent)); }
  bool sent() const { return std::all_of(places_.begin(), places_.end(), std::mem_fn(&Place::sent)); }
  /// Not when full().
  Place& place(std::size_t receivers) {
    auto found = std::find_if(places_.begin(), places_.end(), std::mem_fn(&Place::sent));
    Place& place = found == places_.end() ? places_.emplace_back() : *found;
    if (place.transfers.size() < receivers) place.transfers = std::vector<Transfer>(receivers);
    return place;
  }

 private:
  std::deque<Place> places_;
};

}  // namespace troupe::collective
