// ResponseStore: all stored responses: those in memory (SessionTree) and, where there is a folder for them, those on disk (ResponseLog).
// A response lies in one of the two; one whose parent lies in the other takes its parent's ids along. Where the disk fails, what was to go
// there is kept in memory and the error says so. Owned by the SessionStore actor; one thread at a time.
#pragma once
#include "runtime/session/response_log.h"
#include "runtime/session/session_tree.h"

#include <optional>
#include <string>
#include <vector>

namespace troupe::session {

/// The two clocks at one moment: of life times in memory, and of those on disk.
struct StoreTime {
  TimePoint steady;
  UnixSeconds unix_seconds = 0;
};

class ResponseStore {
 public:
  ResponseStore(std::chrono::seconds default_ttl, std::size_t max_tokens, std::optional<ResponseLogOptions> log);

  /// kStorageFailed for retention `disk`: it is in memory now, unless `find` does not find it.
  Status store(StoredResponse response, const StoreTime& now);
  Result<FoundResponse> find(const Hash128& owner, std::string_view id, std::uint64_t connection, const StoreTime& now);
  /// The ids of all that went.
  Result<std::vector<std::string>> drop(const Hash128& owner, std::string_view id, bool subtree, const StoreTime& now);
  std::vector<ListedResponse> list(const Hash128& owner, std::string_view after, std::size_t limit, const StoreTime& now);
  /// `ttl` zero unpins.
  Status pin(const Hash128& owner, std::string_view id, std::chrono::seconds ttl, const StoreTime& now);
  std::vector<PinnedResponse> pinned(const StoreTime& now);
  void close_connection(std::uint64_t connection) { tree_.close_connection(connection); }
  /// Now and then: what is too old goes.
  void expire(const StoreTime& now);
  std::size_t size() const { return tree_.size() + (log_ ? log_->size() : 0); }
  std::uint64_t disk_bytes() const { return log_ ? log_->bytes() : 0; }

 private:
  SessionTree tree_;
  std::optional<ResponseLog> log_;
};

}  // namespace troupe::session
