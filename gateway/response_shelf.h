// ResponseShelf: the stored responses of the gateway, found by owner and id: those under way, so that a dropped stream can be resumed or
// cancelled, and those that have ended. Their token ids are kept apart, by the engine's session store, which has bounds of its own.
// Owned by the Service; loop thread. Bounds, all in limits.h: response_bytes over all, the longest unused of those that ended go first;
// response_ttl_ms for each from its end; events of an ended stream for resume_ms; a stream without a reader for orphan_ms.
#pragma once
#include "gateway/response_run.h"
#include "runtime/base/metrics.h"

#include <list>
#include <memory>
#include <string>
#include <unordered_map>

namespace troupe::gateway {

class ResponseShelf {
 public:
  ResponseShelf(Service& service, base::Gauge& responses, base::Gauge& bytes);

  void put(std::shared_ptr<ResponseRun> run);
  /// Null for an id that is unknown, another owner's, or too old: nobody can tell which.
  std::shared_ptr<ResponseRun> find(const Hash128& owner, const std::string& id);
  enum class Elsewhere { kForgotten, kToForget };
  /// Forgets it here and, unless that has been done, in the engine; one under way is cancelled. False: not found.
  bool remove(const Hash128& owner, const std::string& id, Elsewhere elsewhere = Elsewhere::kToForget);
  /// Now and then: what has become too old goes.
  void tick();
  /// Whether a stored response is still under way.
  bool has_running() const;
  /// Ends and forgets all of them, silently: the last thing before the engine goes.
  void clear();

  // For runs.
  void changed(const ResponseRun& run);
  void run_ended(const ResponseRun& run);

 private:
  struct Entry {
    std::shared_ptr<ResponseRun> run;
    std::size_t counted = 0;  // bytes, as of the last change
    std::list<std::string>::iterator use;
  };
  using Entries = std::unordered_map<std::string, Entry>;
  bool expired(const ResponseRun& run) const;
  void drop(Entries::iterator entry, Elsewhere elsewhere);
  void count(Entry& entry);
  void make_room();
  void report();

  Service& service_;
  Entries entries_;
  std::list<std::string> uses_;                        // longest unused first
  std::vector<std::shared_ptr<ResponseRun>> leaving_;  // removed, but not yet ended
  std::size_t bytes_ = 0;
  std::uint64_t next_tick_ = 0;
  base::Gauge& responses_gauge_;
  base::Gauge& bytes_gauge_;
};

}  // namespace troupe::gateway
