// SessionTree: stored responses as a tree: id -> parent, exact token ids, owner, life time. Owned by the SessionStore actor; one thread at
// a time. Invariants: a response is found by its owner only; tokens shared with a parent are kept once, and stay as long as a child
// needs them, even when the parent is dropped; at most `max_tokens` ids are kept (4 bytes of a record count
// as one), the longest unused responses go first.
#pragma once
#include "messages/error.h"
#include "messages/ids.h"
#include "runtime/session/request.h"

#include <chrono>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::session {

using TimePoint = std::chrono::steady_clock::time_point;

struct StoredResponse {
  std::string id;
  std::string parent;  // empty = root
  Hash128 owner;
  Retention retention = Retention::kMemory;
  std::uint64_t connection = 0;
  std::string lane;
  std::chrono::seconds ttl{0};  // 0 = the tree's default
  std::string model;
  Hash128 template_id;
  Hash128 key_domain;
  std::uint32_t inherited = 0;  // ids taken over from the parent's
  std::vector<TokenId> tokens;  // behind those
  std::uint32_t prompt_tokens = 0;
  std::string record;
};

struct FoundResponse {
  std::vector<TokenId> tokens;  // from the root on
  std::uint32_t prompt_tokens = 0;
  std::string model;
  Hash128 template_id;
  std::string record;
  Hash128 key_domain;
  std::string parent;
};

struct ListedResponse {
  std::string id, parent;
  std::uint32_t path_tokens = 0, own_tokens = 0, ttl_seconds_left = 0, pin_seconds_left = 0;  // 0: not pinned
  Retention retention = Retention::kMemory;
};

struct PinnedResponse {
  std::string id;
  Hash128 owner;
  std::uint32_t seconds_left = 0;
};

/// In the same words for an unknown id and another's response.
Error response_not_found(std::string_view id);

class SessionTree {
 public:
  SessionTree(std::chrono::seconds default_ttl, std::size_t max_tokens) : default_ttl_(default_ttl), max_tokens_(max_tokens) {}

  /// Errors: an id that is taken, a parent that is gone although ids of it are wanted, more ids than the tree may hold.
  Status store(StoredResponse response, TimePoint now);
  /// kNotFound, in the same words, for an unknown id, another's response, and a `connection` response asked for elsewhere.
  Result<FoundResponse> find(const Hash128& owner, std::string_view id, std::uint64_t connection, TimePoint now);
  /// How many were dropped. Children keep their own tokens unless `subtree`.
  Result<std::uint32_t> drop(const Hash128& owner, std::string_view id, bool subtree, TimePoint now);
  /// It is kept at least until then, and not pushed out before others; a time that has passed unpins. kNotFound as find().
  Status pin(const Hash128& owner, std::string_view id, TimePoint until, TimePoint now);
  std::vector<PinnedResponse> pinned(TimePoint now) const;
  std::vector<std::string> children(const Hash128& owner, std::string_view id) const;
  /// Those of the owner, by id, behind `after`; at most `limit`.
  std::vector<ListedResponse> list(const Hash128& owner, std::string_view after, std::size_t limit, TimePoint now);
  void close_connection(std::uint64_t connection);
  void expire(TimePoint now);

  std::size_t size() const { return nodes_.size(); }
  /// Ids kept, those that only children keep alive included.
  std::size_t stored_tokens() const { return *path_tokens_; }

 private:
  /// Ids of one response; immutable once stored, shared by its children.
  struct Path {
    std::shared_ptr<const Path> parent;
    std::uint32_t inherited = 0;
    std::vector<TokenId> tokens;
    std::size_t length() const { return inherited + tokens.size(); }
  };
  struct Node {
    StoredResponse response;  // without tokens
    std::shared_ptr<const Path> path;
    TimePoint expires, pinned{};
    std::list<std::string>::iterator use;  // place in uses_
  };
  using Nodes = std::map<std::string, Node, std::less<>>;
  Nodes::iterator find_visible(const Hash128& owner, std::string_view id, TimePoint now);
  void make_room(TimePoint now);
  void erase(Nodes::iterator node);
  std::shared_ptr<const Path> make_path(Path path);

  std::chrono::seconds default_ttl_;
  std::size_t max_tokens_;
  Nodes nodes_;
  std::list<std::string> uses_;  // ids, longest unused first
  /// Counted by the deleter of each path: ids that only children keep alive count too.
  std::shared_ptr<std::size_t> path_tokens_ = std::make_shared<std::size_t>(0);
  std::size_t record_bytes_ = 0;
};

}  // namespace troupe::session
