// ResponseLog: stored responses in one SQLite file of the cache folder, so that they survive a restart. A call that says ok is on the
// disk. What cannot be read is moved aside, what another process holds is left alone, a disk that fails is tried again later: never a
// failed start, and never a response that is not what was stored, since each row has a checksum. Owned by the session store's actor,
// which waits for the disk; one thread at a time. Ids shared with a parent are kept once, as in the SessionTree.
// Invariant: rows of `paths` are there as long as a response or another path needs them; the file stays near `max_bytes`.
#pragma once
#include "runtime/session/session_tree.h"
#include "runtime/session/sqlite.h"

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::session {

using UnixSeconds = std::int64_t;  // what a restart does not change

struct ResponseLogOptions {
  std::filesystem::path folder;
  std::uint64_t max_bytes = 64 << 20;  // beyond it the oldest go, pinned ones last
  std::chrono::seconds default_ttl{3600};
  int busy_ms = 2000;  // for a process that is about to end
};

class ResponseLog {
 public:
  static constexpr const char* kFileName = "responses.sqlite";
  static constexpr const char* kAsideName = "responses.sqlite.unreadable";  // where a file goes that is damaged, or of another version

  explicit ResponseLog(ResponseLogOptions options) : options_(std::move(options)) {}

  /// Also done by the first call of any other. Errors of this and of all others: kStorageFailed where the disk, or another process, has
  /// the file; kCorrupted where a row is not what was written: it is dropped.
  Status open(UnixSeconds now);
  /// Errors as SessionTree::store.
  Status store(const StoredResponse& response, UnixSeconds now);
  /// kNotFound as SessionTree::find.
  Result<FoundResponse> find(const Hash128& owner, std::string_view id, UnixSeconds now);
  /// Those that were there. All or none.
  Result<std::vector<std::string>> drop(const Hash128& owner, std::span<const std::string> ids, UnixSeconds now);
  /// Those of the owner, by id, behind `after`; at most `limit`. Empty where the file cannot be read.
  std::vector<ListedResponse> list(const Hash128& owner, std::string_view after, std::size_t limit, UnixSeconds now);
  std::vector<std::string> children(const Hash128& owner, std::string_view id, UnixSeconds now);
  /// It is kept at least until then, and not pushed out before others; 0 unpins.
  Status pin(const Hash128& owner, std::string_view id, UnixSeconds until, UnixSeconds now);
  std::vector<PinnedResponse> pinned(UnixSeconds now);
  /// Deletes what is too old.
  void expire(UnixSeconds now);

  std::size_t size() const { return responses_; }
  std::uint64_t bytes() const { return bytes_; }

 private:
  static constexpr std::int64_t kRowBytes = 1024;  // counted for a row beside its ids and record: keys, indices, pages half full
  /// Runs `work` on the open file; failures of SQLite become errors, and the file is seen to.
  template <class Work>
  auto guarded(UnixSeconds now, Work work) -> decltype(work()) {
    try {
      connect(now);
      return work();
    } catch (const SqliteFailure& failure) {
      return failed(failure);
    }
  }
  void connect(UnixSeconds now);
  void make_tables(UnixSeconds now);
  void move_aside(std::string_view why);
  void count();
  Error failed(const SqliteFailure& failure);
  std::vector<TokenId> read_path(std::int64_t path);
  void erase(std::int64_t number, std::int64_t path);
  void erase_expired(UnixSeconds now);
  void make_room(UnixSeconds now);

  ResponseLogOptions options_;
  Sqlite database_;
  std::string path_;
  UnixSeconds try_again_ = 0;
  bool failing_ = false;  // said once
  std::string why_;
  std::size_t responses_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace troupe::session
