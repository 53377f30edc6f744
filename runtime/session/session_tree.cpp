#include "runtime/session/session_tree.h"

#include "messages/error_reasons.h"

#include <algorithm>

namespace troupe::session {

Error response_not_found(std::string_view id) {
  return make_error(ErrorClass::kNotFound, ErrorReason::kPreviousResponse, "Previous response with id '" + std::string(id) + "' not found.",
                    "previous_response_id");
}

namespace {

std::uint32_t seconds_until(TimePoint until, TimePoint now) {
  return until > now ? static_cast<std::uint32_t>(std::chrono::duration_cast<std::chrono::seconds>(until - now).count()) : 0;
}
Error storage_error(std::string text) { return make_error(ErrorClass::kStorageFailed, ErrorReason::kUnclassified, std::move(text)); }

}  // namespace

std::shared_ptr<const SessionTree::Path> SessionTree::make_path(Path path) {
  *path_tokens_ += path.tokens.size();
  return {new Path(std::move(path)), [counter = path_tokens_](const Path* dead) {
            *counter -= dead->tokens.size();
            delete dead;
          }};
}

Status SessionTree::store(StoredResponse response, TimePoint now) {
  expire(now);
  if (response.id.empty() || nodes_.contains(response.id)) return storage_error("the response id is empty or taken");
  Path path;
  path.inherited = response.inherited;
  if (response.inherited > 0) {
    const auto parent = find_visible(response.owner, response.parent, now);
    if (parent == nodes_.end() || parent->second.path->length() < response.inherited)
      return storage_error("the parent of the response is no longer stored");
    path.parent = parent->second.path;
  }
  if (response.tokens.size() + response.record.size() / sizeof(TokenId) > max_tokens_)
    return storage_error("the response is larger than the session store");
  path.tokens = std::move(response.tokens);
  const auto ttl = response.ttl.count() > 0 ? response.ttl : default_ttl_;
  std::string id = response.id;
  const auto [node, inserted] = nodes_.emplace(id, Node{std::move(response), make_path(std::move(path)), now + ttl, {}, {}});
  node->second.use = uses_.insert(uses_.end(), std::move(id));
  record_bytes_ += node->second.response.record.size();
  make_room(now);
  return ok_status();
}

/// The longest unused go, pinned ones after all others; not the one just stored, which is the last.
void SessionTree::make_room(TimePoint now) {
  for (const bool pinned_too : {false, true})
    for (auto use = uses_.begin(); use != std::prev(uses_.end());) {
      if (*path_tokens_ + record_bytes_ / sizeof(TokenId) <= max_tokens_) return;
      const auto node = nodes_.find(*use++);
      if (pinned_too || node->second.pinned <= now) erase(node);
    }
}

Result<FoundResponse> SessionTree::find(const Hash128& owner, std::string_view id, std::uint64_t connection, TimePoint now) {
  const auto node = find_visible(owner, id, now);
  if (node == nodes_.end()) return response_not_found(id);
  const auto& response = node->second.response;
  if (response.retention == Retention::kConnection && response.connection != connection) return response_not_found(id);
  FoundResponse found{
      {}, response.prompt_tokens, response.model, response.template_id, response.record, response.key_domain, response.parent};
  // From the leaf up: each path's own ids go in front of what its children took over of it.
  found.tokens.resize(node->second.path->length());
  std::size_t end = found.tokens.size();
  for (const Path* path = node->second.path.get(); path != nullptr && end > 0; path = path->parent.get()) {
    if (end <= path->inherited) continue;
    std::copy_n(path->tokens.begin(), end - path->inherited, found.tokens.begin() + path->inherited);
    end = path->inherited;
  }
  uses_.splice(uses_.end(), uses_, node->second.use);
  return found;
}

Result<std::uint32_t> SessionTree::drop(const Hash128& owner, std::string_view id, bool subtree, TimePoint now) {
  const auto root = find_visible(owner, id, now);
  if (root == nodes_.end()) return response_not_found(id);
  std::vector<std::string> doomed{root->first};
  for (std::size_t i = 0; subtree && i < doomed.size(); ++i)
    for (auto& child : children(owner, doomed[i])) doomed.push_back(std::move(child));
  for (const auto& dead : doomed) erase(nodes_.find(dead));
  return static_cast<std::uint32_t>(doomed.size());
}

Status SessionTree::pin(const Hash128& owner, std::string_view id, TimePoint until, TimePoint now) {
  const auto node = find_visible(owner, id, now);
  if (node == nodes_.end()) return response_not_found(id);
  node->second.pinned = until;
  node->second.expires = std::max(node->second.expires, until);
  return ok_status();
}

std::vector<PinnedResponse> SessionTree::pinned(TimePoint now) const {
  std::vector<PinnedResponse> pins;
  for (const auto& [id, node] : nodes_)
    if (node.pinned > now) pins.push_back({id, node.response.owner, seconds_until(node.pinned, now)});
  return pins;
}

std::vector<std::string> SessionTree::children(const Hash128& owner, std::string_view id) const {
  std::vector<std::string> ids;
  for (const auto& [child, node] : nodes_)
    if (node.response.parent == id && node.response.owner == owner) ids.push_back(child);
  return ids;
}

std::vector<ListedResponse> SessionTree::list(const Hash128& owner, std::string_view after, std::size_t limit, TimePoint now) {
  expire(now);
  std::vector<ListedResponse> listed;
  for (auto node = nodes_.upper_bound(after); node != nodes_.end() && listed.size() < limit; ++node) {
    const auto& response = node->second.response;
    if (response.owner != owner) continue;
    listed.push_back({response.id, response.parent, static_cast<std::uint32_t>(node->second.path->length()),
                      static_cast<std::uint32_t>(node->second.path->tokens.size()), seconds_until(node->second.expires, now),
                      seconds_until(node->second.pinned, now), response.retention});
  }
  return listed;
}

void SessionTree::close_connection(std::uint64_t connection) {
  for (auto node = nodes_.begin(); node != nodes_.end();) {
    const auto next = std::next(node);
    if (node->second.response.retention == Retention::kConnection && node->second.response.connection == connection) erase(node);
    node = next;
  }
}

SessionTree::Nodes::iterator SessionTree::find_visible(const Hash128& owner, std::string_view id, TimePoint now) {
  const auto node = nodes_.find(id);
  if (node == nodes_.end() || node->second.response.owner != owner) return nodes_.end();
  if (node->second.expires <= now) {
    erase(node);
    return nodes_.end();
  }
  return node;
}

void SessionTree::expire(TimePoint now) {
  for (auto node = nodes_.begin(); node != nodes_.end();) {
    const auto next = std::next(node);
    if (node->second.expires <= now) erase(node);
    node = next;
  }
}

void SessionTree::erase(Nodes::iterator node) {
  uses_.erase(node->second.use);
  record_bytes_ -= node->second.response.record.size();
  nodes_.erase(node);
}

}  // namespace troupe::session
