// See response_shelf.h.
#include "gateway/response_shelf.h"

#include "gateway/service.h"

#include <algorithm>
#include <utility>

namespace troupe::gateway {
namespace {

constexpr std::uint64_t kTickMs = 1000;  // between two looks at all entries

}  // namespace

ResponseShelf::ResponseShelf(Service& service, base::Gauge& responses, base::Gauge& bytes)
    : service_(service), responses_gauge_(responses), bytes_gauge_(bytes) {}

void ResponseShelf::report() {
  responses_gauge_.set(static_cast<double>(entries_.size()));
  bytes_gauge_.set(static_cast<double>(bytes_));
}

void ResponseShelf::put(std::shared_ptr<ResponseRun> run) {
  auto id = run->id();
  auto use = uses_.insert(uses_.end(), id);
  auto& entry = entries_[id] = {std::move(run), 0, use};
  changed(*entry.run);
}

void ResponseShelf::changed(const ResponseRun& run) {
  auto found = entries_.find(run.id());
  if (found == entries_.end()) return;
  count(found->second);
  make_room();
  report();
}

void ResponseShelf::count(Entry& entry) {
  auto bytes = entry.run->bytes();
  bytes_ = bytes_ - entry.counted + bytes;
  entry.counted = bytes;
}

void ResponseShelf::make_room() {
  auto most = service_.limits().response_bytes;
  for (auto use = uses_.begin(); bytes_ > most && use != uses_.end();) {
    auto entry = entries_.find(*use++);
    if (entry->second.run->ended() && entry->second.run->readers() == 0) drop(entry, Elsewhere::kForgotten);
  }
  // What is left is under way, and there are at most limits.requests of those: they keep what their readers wait for.
  for (auto use = uses_.begin(); bytes_ > most && use != uses_.end(); ++use) {
    auto& entry = entries_.find(*use)->second;
    entry.run->forget_events(0);
    count(entry);
  }
}

void ResponseShelf::drop(Entries::iterator entry, Elsewhere elsewhere) {
  auto run = std::move(entry->second.run);
  bytes_ -= entry->second.counted;
  uses_.erase(entry->second.use);
  entries_.erase(entry);
  run->leave_shelf();
  if (elsewhere == Elsewhere::kToForget || !run->ended()) run->drop_when_ended();
  if (!run->ended()) {
    run->cancel();
    leaving_.push_back(std::move(run));
  }
  report();
}

bool ResponseShelf::expired(const ResponseRun& run) const {
  return run.ended() && service_.now() - run.idle_since() >= service_.limits().response_ttl_ms;
}

std::shared_ptr<ResponseRun> ResponseShelf::find(const Hash128& owner, const std::string& id) {
  auto found = entries_.find(id);
  if (found == entries_.end() || found->second.run->owner() != owner || expired(*found->second.run)) return nullptr;
  uses_.splice(uses_.end(), uses_, found->second.use);
  return found->second.run;
}

bool ResponseShelf::remove(const Hash128& owner, const std::string& id, Elsewhere elsewhere) {
  if (find(owner, id) == nullptr) return false;
  drop(entries_.find(id), elsewhere);
  return true;
}

void ResponseShelf::run_ended(const ResponseRun& run) {
  std::erase_if(leaving_, [&](const auto& left) { return left.get() == &run; });
}

void ResponseShelf::tick() {
  const auto& limits = service_.limits();
  if (service_.now() < next_tick_) return;
  next_tick_ = service_.now() + std::min<std::uint64_t>(kTickMs, limits.resume_ms);
  for (auto next = entries_.begin(); next != entries_.end();) {
    auto entry = next++;
    auto& run = *entry->second.run;
    if (run.readers() > 0) continue;
    auto idle = service_.now() - run.idle_since();
    if (!run.ended()) {
      if (idle >= limits.orphan_ms) run.cancel();  // what it has so far is kept
    } else if (idle >= limits.response_ttl_ms) {
      drop(entry, Elsewhere::kForgotten);
    } else if (idle >= limits.resume_ms && run.events().bytes() > 0) {
      run.forget_events(0);
      count(entry->second);
    }
  }
  report();
}

bool ResponseShelf::has_running() const {
  return std::any_of(entries_.begin(), entries_.end(), [](const auto& entry) { return !entry.second.run->ended(); });
}

void ResponseShelf::clear() {
  auto entries = std::exchange(entries_, {});
  auto leaving = std::exchange(leaving_, {});
  uses_.clear();
  bytes_ = 0;
  for (auto& [id, entry] : entries) entry.run->abandon();
  for (auto& run : leaving) run->abandon();
  report();
}

}  // namespace troupe::gateway
