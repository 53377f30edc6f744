#include "runtime/session/response_store.h"

#include "messages/error_reasons.h"

#include <algorithm>
#include <iterator>
#include <set>

namespace troupe::session {
namespace {

bool is_missing(const Error& error) { return error.error_class == ErrorClass::kNotFound; }

/// All ids of its path as its own.
void make_root(StoredResponse& response, const FoundResponse& parent) {
  response.tokens.insert(response.tokens.begin(), parent.tokens.begin(), parent.tokens.begin() + response.inherited);
  response.inherited = 0;
}

}  // namespace

ResponseStore::ResponseStore(std::chrono::seconds default_ttl, std::size_t max_tokens, std::optional<ResponseLogOptions> log)
    : tree_(default_ttl, max_tokens) {
  if (log) log_.emplace(*std::move(log));
}

Status ResponseStore::store(StoredResponse response, const StoreTime& now) {
  const bool disk = response.retention == Retention::kDisk;
  if (response.inherited > 0 && log_) {
    const auto in_memory = tree_.find(response.owner, response.parent, response.connection, now.steady);
    if (in_memory && disk && in_memory->tokens.size() >= response.inherited) make_root(response, *in_memory);
    if (!in_memory && !disk)
      if (const auto on_disk = log_->find(response.owner, response.parent, now.unix_seconds);
          on_disk && on_disk->tokens.size() >= response.inherited)
        make_root(response, *on_disk);
  }
  if (!disk) return tree_.store(std::move(response), now.steady);

  Status stored = log_ ? log_->store(response, now.unix_seconds)
                       : make_error(ErrorClass::kStorageFailed, ErrorReason::kUnclassified,
                                    "There is no disk cache (--disk-cache); the response is kept in memory.");
  if (stored) return stored;
  if (response.inherited > 0 && log_)
    if (const auto parent = log_->find(response.owner, response.parent, now.unix_seconds);
        parent && parent->tokens.size() >= response.inherited)
      make_root(response, *parent);
  static_cast<void>(tree_.store(std::move(response), now.steady));
  return stored;
}

Result<FoundResponse> ResponseStore::find(const Hash128& owner, std::string_view id, std::uint64_t connection, const StoreTime& now) {
  auto found = tree_.find(owner, id, connection, now.steady);
  if (found || !log_ || !is_missing(found.error())) return found;
  return log_->find(owner, id, now.unix_seconds);
}

Result<std::vector<std::string>> ResponseStore::drop(const Hash128& owner, std::string_view id, bool subtree, const StoreTime& now) {
  std::vector<std::string> doomed{std::string(id)}, dropped;
  std::set<std::string> known(doomed.begin(), doomed.end());  // parents come from a file: a circle of them must end
  const auto add = [&](std::vector<std::string> children) {
    for (auto& child : children)
      if (known.insert(child).second) doomed.push_back(std::move(child));
  };
  for (std::size_t i = 0; subtree && i < doomed.size(); ++i) {
    add(tree_.children(owner, doomed[i]));
    if (log_) add(log_->children(owner, doomed[i], now.unix_seconds));
  }
  // The disk first: what fails there is still there afterwards, and said so.
  if (log_) {
    auto gone = log_->drop(owner, doomed, now.unix_seconds);
    if (!gone) return gone.error();
    dropped = *std::move(gone);
  }
  for (auto& dead : doomed)
    if (tree_.drop(owner, dead, false, now.steady)) dropped.push_back(std::move(dead));
  if (dropped.empty()) return response_not_found(id);
  return dropped;
}

std::vector<ListedResponse> ResponseStore::list(const Hash128& owner, std::string_view after, std::size_t limit, const StoreTime& now) {
  auto listed = tree_.list(owner, after, limit, now.steady);
  if (!log_) return listed;
  auto on_disk = log_->list(owner, after, limit, now.unix_seconds);
  std::vector<ListedResponse> all;
  std::merge(std::move_iterator(listed.begin()), std::move_iterator(listed.end()), std::move_iterator(on_disk.begin()),
             std::move_iterator(on_disk.end()), std::back_inserter(all),
             [](const ListedResponse& a, const ListedResponse& b) { return a.id < b.id; });
  if (all.size() > limit) all.resize(limit);
  return all;
}

Status ResponseStore::pin(const Hash128& owner, std::string_view id, std::chrono::seconds ttl, const StoreTime& now) {
  auto pinned = tree_.pin(owner, id, now.steady + ttl, now.steady);
  if (pinned || !log_ || !is_missing(pinned.error())) return pinned;
  return log_->pin(owner, id, now.unix_seconds + ttl.count(), now.unix_seconds);
}

std::vector<PinnedResponse> ResponseStore::pinned(const StoreTime& now) {
  auto pins = tree_.pinned(now.steady);
  if (!log_) return pins;
  auto on_disk = log_->pinned(now.unix_seconds);
  std::move(on_disk.begin(), on_disk.end(), std::back_inserter(pins));
  return pins;
}

void ResponseStore::expire(const StoreTime& now) {
  tree_.expire(now.steady);
  if (log_) log_->expire(now.unix_seconds);
}

}  // namespace troupe::session
