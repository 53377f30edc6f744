// EventLog: the events of one response, numbered from 0, the oldest perhaps no longer kept. Pure; one thread at a time. Invariants:
// numbers have no gaps; what is dropped is dropped from the front, whole events at a time.
#pragma once
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

namespace troupe::gateway {

struct ResponseEvent {
  std::string_view type;       // a literal
  std::string json;            // the whole event, without a lane
  std::uint64_t end_byte = 0;  // bytes of all events up to this one, those dropped included
};

class EventLog {
 public:
  void add(std::string_view type, std::string json) {
    bytes_ += json.size() + kOverhead;
    events_.push_back({type, std::move(json), bytes_});
  }
  /// Number of the oldest event kept; end() if none is.
  std::uint64_t first() const { return first_; }
  /// Number that the next event will have.
  std::uint64_t end() const { return first_ + events_.size(); }
  const ResponseEvent& at(std::uint64_t number) const { return events_[number - first_]; }
  /// Bytes of the events kept, their own cost included.
  std::size_t bytes() const { return static_cast<std::size_t>(bytes_ - dropped_); }
  /// Bytes of the events from `number` on.
  std::size_t bytes_from(std::uint64_t number) const {
    if (number >= end()) return 0;
    return static_cast<std::size_t>(bytes_ - (number <= first_ ? dropped_ : at(number - 1).end_byte));
  }
  /// Drops the oldest events until at most `most` bytes are kept, but none from `needed` on.
  void trim(std::size_t most, std::uint64_t needed) {
    while (bytes() > most && first_ < needed && !events_.empty()) {
      dropped_ = events_.front().end_byte;
      events_.pop_front();
      first_++;
    }
    if (events_.empty()) events_.shrink_to_fit();
  }

 private:
  static constexpr std::size_t kOverhead = 64;  // of an event beside its text: entry and allocation
  std::deque<ResponseEvent> events_;
  std::uint64_t first_ = 0;
  std::uint64_t bytes_ = 0;    // ever added
  std::uint64_t dropped_ = 0;  // of those
};

}  // namespace troupe::gateway
