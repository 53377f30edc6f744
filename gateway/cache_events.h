// GET /v1/cache/events: what the prefix cache stores and removes, as server-sent events. CacheEventReaders: the streams that are open, by
// the question each has asked. CacheEventStream: one of them. It asks the cache for events only once it has sent what it has, so nothing
// piles up for a slow reader: it comes late, and where its events are no longer kept it gets a snapshot. Loop thread; a stream is owned by
// its connection. Invariants: an answer reaches the stream that asked, or nobody; at most Limits::event_readers streams.
#pragma once
#include "gateway/exchange.h"
#include "gateway/live_requests.h"
#include "gateway/stream_ping.h"

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace troupe::gateway {

class CacheEventStream;
class Service;

/// The last event that a reader has. Its text is the id of the event.
struct EventPosition {
  Incarnation incarnation = 0;  // of what numbers the events; 0: none yet
  std::uint64_t number = 0;
};
std::string event_id(const EventPosition& position);
std::optional<EventPosition> event_position(std::string_view text);

class CacheEventReaders {
 public:
  explicit CacheEventReaders(LiveRequests& live) : live_(live) {}
  std::size_t size() const { return streams_; }
  void told(const Message<messages::BlockEvents>& events);

  // For streams.
  std::uint64_t open() { return ++streams_, ++last_; }
  void close(std::uint64_t query) {
    --streams_;
    askers_.erase(query);
  }
  /// What comes behind `after`, in place of the answer to question `before`. Returns the new question's number.
  std::uint64_t ask(CacheEventStream& stream, std::uint64_t reader, std::uint64_t before, const EventPosition& after, bool tokens);

 private:
  LiveRequests& live_;
  std::unordered_map<std::uint64_t, CacheEventStream*> askers_;
  std::size_t streams_ = 0;
  std::uint64_t last_ = 0;
};

class CacheEventStream final : public Exchange {
 public:
  CacheEventStream(Service& service, Connection& connection, const EventPosition& after, bool tokens);
  ~CacheEventStream() override { close(); }
  /// Once the connection holds it.
  void begin();
  void told(const Message<messages::BlockEvents>& events);

  void hung_up() override { close(); }
  void writable() override { pump(); }
  void tick(std::uint64_t now) override;
  void cut_short() override { end(); }

 private:
  void ask();
  void pump();
  /// Writes the next event of the first page, which may be its last.
  void write_one();
  void write(std::string_view json, std::string_view id);
  void end();
  void close();

  Service& service_;
  Connection& connection_;
  const bool tokens_;
  EventPosition at_;  // of the last event written that has an id
  std::deque<Message<messages::BlockEvents>> pages_;
  unsigned next_ = 0;     // event of the first page
  bool cleared_ = false;  // its "cleared" has been written
  bool waiting_ = false;  // for an answer, or the rest of one
  bool closed_ = false;
  const std::uint64_t reader_;
  std::uint64_t query_ = 0;
  std::uint64_t asked_at_ = 0;
  StreamPing ping_;
};

}  // namespace troupe::gateway
