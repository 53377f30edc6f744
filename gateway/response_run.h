// ResponseRun: one response of the Responses API from its request to its end and beyond: the engine's call, the growing body, the events
// that readers have not read yet, and for a stored stream some that they have, so that a dropped one can be resumed. It knows no socket:
// connections look at it through EventCursors, any number at a time. Held by its cursors and, while it is stored, by the ResponseShelf;
// loop thread. Invariants: it ends once; nothing waits for a reader in more bytes than limits allow, because credits go back only while
// the slowest cursor is near the end; without a cursor a response that is not stored is cancelled.
#pragma once
#include "gateway/event_log.h"
#include "gateway/live_requests.h"
#include "gateway/response_body.h"

#include <memory>
#include <optional>
#include <vector>

namespace troupe::gateway {

class EventCursor;
class Service;

class ResponseRun final : public EngineSink, public std::enable_shared_from_this<ResponseRun> {
 public:
  /// Gives the checked and prepared request its id and hands it to the engine.
  static std::shared_ptr<ResponseRun> start(Service& service, ResponsesRequest request);

  const std::string& id() const { return id_; }
  const Hash128& owner() const { return owner_; }
  /// Its events are wanted; a stored one then outlives its readers.
  bool streamed() const { return streamed_; }
  /// Admitted: events follow, and there will be a response object.
  bool begun() const { return begun_; }
  /// Nothing comes any more.
  bool ended() const { return ended_; }
  /// Why it ended without a good end; before begun(): it never was one.
  const std::optional<Error>& error() const { return error_; }
  /// The response object now, as JSON text.
  std::string object() const { return body_ ? body_->object() : object_; }
  /// Its own input as JSON text: an array of items with ids.
  const std::string& input_items() const { return input_items_; }
  const EventLog& events() const { return events_; }
  std::size_t readers() const { return cursors_.size(); }
  /// Bytes kept for it, with its fixed cost.
  std::size_t bytes() const;
  /// Loop time of its end, or since when it runs without a reader; meaningless while it is read.
  std::uint64_t idle_since() const { return idle_since_; }

  /// Asks for an early end; it still ends with an event.
  void cancel() { call_.cancel(); }
  /// Ends it with `error` now.
  void cut_short(const Error& error);
  /// Ends it without a word, as far as readers are concerned.
  void abandon();
  /// Events that nobody still has to read are dropped down to `most` bytes.
  void forget_events(std::size_t most);
  /// When it ends, the engine's memory of it is dropped, too. At once if it has ended.
  void drop_when_ended();
  void leave_shelf() { shelved_ = false; }

  // EngineSink.
  void admitted(messages::RequestAdmitted::Reader message) override;
  void delta(messages::TokenDelta::Reader message) override;
  void finished(messages::RequestFinished::Reader message) override;

 private:
  friend class EventCursor;
  ResponseRun(Service& service, std::string id, ResponsesRequest&& request);
  ResponseBody::Emit emitter();
  void attach(EventCursor& cursor) { cursors_.push_back(&cursor); }
  void detach(EventCursor& cursor);
  std::uint64_t needed() const;
  /// After events were added or read: drops what is no longer needed, gives credits back, tells the shelf.
  void settle();
  void tell_readers();
  void end();

  Service& service_;
  const std::string id_;
  const Hash128 owner_;
  const bool store_;
  const bool streamed_;
  bool shelved_ = false;
  bool begun_ = false;
  bool ended_ = false;
  bool drop_ = false;
  std::optional<Error> error_;
  std::string object_;  // once ended
  std::string input_items_;
  std::unique_ptr<ResponseBody> body_;  // while it grows; then the text of object_ takes its place
  EventLog events_;
  std::vector<EventCursor*> cursors_;
  std::uint64_t idle_since_ = 0;
  std::uint32_t owed_ = 0;  // deltas taken whose credit has not gone back
  EngineCall call_;
};

/// Who is told that a run has new events or has ended. It may destroy its cursor from inside the call.
class ResponseReader {
 public:
  virtual ~ResponseReader() = default;
  virtual void more() = 0;
};

/// A reader's place among the events of a run; keeps the run alive. Loop thread.
class EventCursor {
 public:
  static constexpr std::uint64_t kEndOnly = ~std::uint64_t{0};  // wants no events, only to hear of the end
  EventCursor(std::shared_ptr<ResponseRun> run, ResponseReader& reader, std::uint64_t next);
  ~EventCursor() { run_->detach(*this); }
  EventCursor(const EventCursor&) = delete;
  EventCursor& operator=(const EventCursor&) = delete;

  ResponseRun& run() const { return *run_; }
  /// The next event, or null while there is none. Valid until settle().
  const ResponseEvent* peek() const { return next_ < run_->events().end() ? &run_->events().at(next_) : nullptr; }
  void pop() { next_++; }
  /// Call it after the last pop() of a turn: what was read may go, and credits with it.
  void settle() { run_->settle(); }
  /// The run has ended, and all of it was read.
  bool at_end() const { return run_->ended() && peek() == nullptr; }

 private:
  friend class ResponseRun;
  std::shared_ptr<ResponseRun> run_;
  ResponseReader& reader_;
  std::uint64_t next_;
};

}  // namespace troupe::gateway
