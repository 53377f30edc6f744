// RequestTable: which session waits for which choices of a request; the Scheduler actor's address book. Owned by it; its thread only.
// Invariant: a request leaves the table with its last open choice, so an entry means that a finish, an abort or a death is still to come.
#pragma once
#include "messages/ids.h"

#include <caf/actor.hpp>
#include <caf/actor_addr.hpp>

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

namespace troupe::actors {

class RequestTable {
 public:
  /// True if the request was not known: its session has to be monitored.
  bool add(RequestId request, std::uint16_t attempt, const caf::actor& session, std::uint16_t first_choice, std::uint16_t choices) {
    auto [entry, added] = entries_.try_emplace(request, Entry{session, attempt, {}});
    entry->second.attempt = attempt;
    for (std::uint16_t i = 0; i < choices; ++i) entry->second.open.push_back({static_cast<std::uint16_t>(first_choice + i), first_choice});
    return added;
  }
  caf::actor session(RequestId request) const {
    const auto entry = entries_.find(request);
    return entry == entries_.end() ? caf::actor{} : entry->second.session;
  }
  /// True if the request left the table with this choice.
  bool close(RequestId request, std::uint16_t choice) {
    return close_if(request, [&](const Open& open) { return open.choice == choice; });
  }
  /// Likewise with all choices that the admission from `first_choice` on brought.
  bool close_admission(RequestId request, std::uint16_t first_choice) {
    return close_if(request, [&](const Open& open) { return open.first_choice == first_choice; });
  }
  bool close_all(RequestId request) { return entries_.erase(request) > 0; }
  /// Requests of a session with their attempts.
  std::vector<std::pair<RequestId, std::uint16_t>> requests_of(const caf::actor_addr& session) const {
    std::vector<std::pair<RequestId, std::uint16_t>> requests;
    for (const auto& [request, entry] : entries_)
      if (entry.session.address() == session) requests.emplace_back(request, entry.attempt);
    return requests;
  }
  std::size_t size() const { return entries_.size(); }

 private:
  struct Open {
    std::uint16_t choice;
    std::uint16_t first_choice;  // of its admission
  };
  struct Entry {
    caf::actor session;
    std::uint16_t attempt = 0;
    std::vector<Open> open;
  };
  template <class Predicate>
  bool close_if(RequestId request, Predicate predicate) {
    const auto entry = entries_.find(request);
    if (entry == entries_.end()) return false;
    std::erase_if(entry->second.open, predicate);
    if (!entry->second.open.empty()) return false;
    entries_.erase(entry);
    return true;
  }
  std::unordered_map<RequestId, Entry> entries_;
};

}  // namespace troupe::actors
