// LiveRequests: the requests handed to the engine that have not ended, by id. EngineCall: the hold of one exchange on one of them.
// Loop thread. Invariants: an answer of the engine reaches its sink or, where that is gone, nobody; a call that goes out of scope
// before its end is cancelled; after finished() nothing comes any more.
#pragma once
#include "gateway/engine_port.h"
#include "gateway/model_request.h"
#include "runtime/base/metrics.h"

#include <unordered_map>

namespace troupe::gateway {

/// Takes the answers of one request, on the loop thread, in order.
class EngineSink {
 public:
  virtual ~EngineSink() = default;
  virtual void admitted(messages::RequestAdmitted::Reader message) = 0;
  virtual void delta(messages::TokenDelta::Reader message) = 0;
  virtual void finished(messages::RequestFinished::Reader message) = 0;
};

class LiveRequests {
 public:
  /// `node` becomes the upper 16 bits of each id; `gauge` follows size().
  LiveRequests(std::uint16_t node, base::Gauge& gauge) : next_(static_cast<std::uint64_t>(node) << 48), gauge_(gauge) {}
  void attach(EnginePort& engine) { engine_ = &engine; }
  EnginePort* engine() { return engine_; }
  RequestId add(EngineSink& sink);
  void remove(RequestId id);
  std::size_t size() const { return sinks_.size(); }
  /// Those that nothing in the engine has answered yet, not even that they are admitted; and how many others have been.
  std::size_t unanswered() const { return unanswered_; }
  std::uint64_t answered() const { return answered_; }

  // Answers; ids that are no longer there are dropped.
  void admitted(messages::RequestAdmitted::Reader message);
  void delta(messages::TokenDelta::Reader message);
  void finished(messages::RequestFinished::Reader message);

 private:
  struct Live {
    EngineSink* sink;
    bool answered = false;
  };
  /// The sink of a request that the engine has just answered; null where nobody waits any more.
  EngineSink* sink_of(std::uint64_t id);

  EnginePort* engine_ = nullptr;
  std::unordered_map<RequestId, Live> sinks_;
  std::size_t unanswered_ = 0;
  std::uint64_t answered_ = 0;
  std::uint64_t next_;
  base::Gauge& gauge_;
};

class EngineCall {
 public:
  /// `sink` must outlive the call; it is not called from inside the constructor.
  EngineCall(LiveRequests& live, const ModelRequest& request, EngineSink& sink);
  ~EngineCall() { cancel_silently(); }
  EngineCall(const EngineCall&) = delete;
  EngineCall& operator=(const EngineCall&) = delete;

  /// Asks for an early end; finished() still comes.
  void cancel();
  /// Nobody is interested any more: nothing comes after this.
  void cancel_silently();
  /// Credits of deltas whose bytes have left. They travel in one message for half of what the request was given: a message a token would
  /// wake the engine's threads once more a step.
  void grant(std::uint32_t deltas);
  /// The sink calls this when finished() came.
  void ended() { running_ = false; }
  bool running() const { return running_; }

 private:
  LiveRequests& live_;
  RequestId id_;
  std::uint32_t least_grant_;  // credits worth a message
  std::uint32_t owed_ = 0;     // granted here, not yet told
  bool running_ = true;
};

}  // namespace troupe::gateway
