// ResponseLog, the rows: written, found, dropped, listed, pinned.
#include "runtime/session/response_log.h"

#include "messages/error_reasons.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"

#include <algorithm>
#include <cstring>

namespace troupe::session {
namespace {

std::string_view view(const Hash128& hash) { return {reinterpret_cast<const char*>(&hash), sizeof hash}; }
std::string_view view(const std::vector<TokenId>& tokens) {
  return {reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(TokenId)};
}

Hash128 hash_of(std::string_view bytes) {
  Hash128 hash;
  if (bytes.size() == sizeof hash) std::memcpy(&hash, bytes.data(), sizeof hash);
  return hash;
}

Hash128 path_sum(std::int64_t path, std::int64_t parent, std::int64_t inherited, std::string_view tokens) {
  const auto number = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
  return base::Hasher().add(number(path)).add(number(parent)).add(number(inherited)).add(tokens).finish();
}

/// Of all that never changes in a row; `path` ties it to its ids.
Hash128 response_sum(const StoredResponse& response, std::int64_t path) {
  base::Hasher hasher;
  for (std::string_view text : {std::string_view(response.id), std::string_view(response.parent), std::string_view(response.lane),
                                std::string_view(response.model), std::string_view(response.record)})
    hasher.add(text);
  hasher.add(response.owner).add(response.template_id).add(response.key_domain);
  return hasher.add(std::uint64_t{response.prompt_tokens}).add(static_cast<std::uint64_t>(path)).finish();
}

struct Damaged {};

}  // namespace

Status ResponseLog::store(const StoredResponse& response, UnixSeconds now) {
  const auto storage_error = [](std::string text) {
    return make_error(ErrorClass::kStorageFailed, ErrorReason::kUnclassified, std::move(text));
  };
  const std::uint64_t new_bytes = response.tokens.size() * sizeof(TokenId) + response.record.size() + 2 * kRowBytes;
  if (new_bytes > options_.max_bytes) return storage_error("The response is larger than the store on disk.");
  return guarded(now, [&]() -> Status {
    std::int64_t parent = 0;
    {
      auto taken = database_.query("SELECT 1 FROM responses WHERE id = ?");
      if (response.id.empty() || taken.add(response.id).step()) return storage_error("The response id is empty or taken.");
    }
    if (response.inherited > 0) {
      auto found = database_.query(
          "SELECT path, inherited + length(tokens) / 4 FROM responses JOIN paths USING (path) WHERE id = ? AND owner = ? AND expires > ?");
      if (!found.add(response.parent).add_blob(view(response.owner)).add(now).step() || found.integer(1) < response.inherited)
        return storage_error("The parent of the response is no longer stored.");
      parent = found.integer(0);
    }
    SqliteTransaction transaction(database_);
    erase_expired(now);
    const auto path = database_.integer("SELECT coalesce(max(path), 0) + 1 FROM paths");
    {
      const auto sum = path_sum(path, parent, response.inherited, view(response.tokens));
      auto row = database_.query("INSERT INTO paths (path, parent, inherited, tokens, sum) VALUES (?, ?, ?, ?, ?)");
      row.add(path).add(parent).add(std::int64_t{response.inherited}).add_blob(view(response.tokens)).add_blob(view(sum)).run();
    }
    {
      const auto sum = response_sum(response, path);
      const auto ttl = response.ttl.count() > 0 ? response.ttl : options_.default_ttl;
      auto row = database_.query(
          "INSERT INTO responses (id, owner, parent, path, lane, model, template, domain, prompt, record, sum, expires) "
          "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
      row.add(response.id).add_blob(view(response.owner)).add(response.parent).add(path).add(response.lane).add(response.model);
      row.add_blob(view(response.template_id)).add_blob(view(response.key_domain)).add(std::int64_t{response.prompt_tokens});
      row.add_blob(response.record).add_blob(view(sum)).add(now + ttl.count()).run();
    }
    ++responses_;
    bytes_ += new_bytes;
    make_room(now);
    transaction.commit();
    if (std::exchange(failing_, false)) base::log(base::LogLevel::kInfo, "responses_on_disk_again", "path=" + base::log_value(path_));
    return ok_status();
  });
}

std::vector<TokenId> ResponseLog::read_path(std::int64_t path) {
  std::vector<TokenId> tokens;
  std::int64_t end = -1;  // ids wanted of this path; -1: all
  while (path != 0 && end != 0) {
    auto row = database_.query("SELECT parent, inherited, tokens, sum FROM paths WHERE path = ?");
    if (!row.add(path).step()) throw Damaged();
    const auto parent = row.integer(0), inherited = row.integer(1);
    const auto bytes = row.bytes(2);
    const auto length = inherited + static_cast<std::int64_t>(bytes.size() / sizeof(TokenId));
    if (hash_of(row.bytes(3)) != path_sum(path, parent, inherited, bytes) || end > length || parent >= path) throw Damaged();
    if (end < 0) {
      end = length;
      tokens.resize(static_cast<std::size_t>(length));
    }
    if (end > inherited) {
      std::memcpy(tokens.data() + inherited, bytes.data(), static_cast<std::size_t>(end - inherited) * sizeof(TokenId));
      end = inherited;
    }
    path = parent;
  }
  if (end > 0) throw Damaged();
  return tokens;
}

Result<FoundResponse> ResponseLog::find(const Hash128& owner, std::string_view id, UnixSeconds now) {
  return guarded(now, [&]() -> Result<FoundResponse> {
    StoredResponse stored;
    std::int64_t number = 0, path = 0;
    try {
      Hash128 sum;
      {
        auto row = database_.query(
            "SELECT number, path, parent, lane, model, template, domain, prompt, record, sum FROM responses "
            "WHERE id = ? AND owner = ? AND expires > ?");
        if (!row.add(id).add_blob(view(owner)).add(now).step()) return response_not_found(id);
        number = row.integer(0);
        path = row.integer(1);
        stored.id = id;
        stored.owner = owner;
        stored.parent = row.string(2);
        stored.lane = row.string(3);
        stored.model = row.string(4);
        stored.template_id = hash_of(row.bytes(5));
        stored.key_domain = hash_of(row.bytes(6));
        stored.prompt_tokens = static_cast<std::uint32_t>(row.integer(7));
        stored.record = row.string(8);
        sum = hash_of(row.bytes(9));
      }
      if (sum != response_sum(stored, path)) throw Damaged();
      stored.tokens = read_path(path);
    } catch (const Damaged&) {
      base::log(base::LogLevel::kWarning, "stored_response_damaged", "path=" + base::log_value(path_));
      SqliteTransaction transaction(database_);
      erase(number, path);
      transaction.commit();
      count();
      return make_error(ErrorClass::kCorrupted, ErrorReason::kUnclassified, "The stored response is damaged and was dropped.",
                        "previous_response_id");
    }
    FoundResponse found;
    found.tokens = std::move(stored.tokens);
    found.prompt_tokens = stored.prompt_tokens;
    found.model = std::move(stored.model);
    found.template_id = stored.template_id;
    found.record = std::move(stored.record);
    found.key_domain = stored.key_domain;
    found.parent = std::move(stored.parent);
    return found;
  });
}

Result<std::vector<std::string>> ResponseLog::drop(const Hash128& owner, std::span<const std::string> ids, UnixSeconds now) {
  return guarded(now, [&]() -> Result<std::vector<std::string>> {
    std::vector<std::string> dropped;
    SqliteTransaction transaction(database_);
    for (const auto& id : ids) {
      std::int64_t number = 0, path = 0;
      {
        auto row = database_.query("SELECT number, path FROM responses WHERE id = ? AND owner = ?");
        if (!row.add(id).add_blob(view(owner)).step()) continue;
        number = row.integer(0);
        path = row.integer(1);
      }
      erase(number, path);
      dropped.push_back(id);
    }
    transaction.commit();
    return dropped;
  });
}

std::vector<ListedResponse> ResponseLog::list(const Hash128& owner, std::string_view after, std::size_t limit, UnixSeconds now) {
  const auto listed = guarded(now, [&]() -> Result<std::vector<ListedResponse>> {
    std::vector<ListedResponse> entries;
    auto row = database_.query(
        "SELECT id, responses.parent, inherited, length(tokens) / 4, expires, pinned FROM responses JOIN paths USING (path) "
        "WHERE owner = ? AND id > ? AND expires > ? ORDER BY id LIMIT ?");
    row.add_blob(view(owner)).add(after).add(now).add(static_cast<std::int64_t>(limit));
    while (row.step()) {
      ListedResponse& entry = entries.emplace_back();
      entry.id = row.string(0);
      entry.parent = row.string(1);
      entry.own_tokens = static_cast<std::uint32_t>(row.integer(3));
      entry.path_tokens = static_cast<std::uint32_t>(row.integer(2)) + entry.own_tokens;
      entry.ttl_seconds_left = static_cast<std::uint32_t>(row.integer(4) - now);
      entry.pin_seconds_left = static_cast<std::uint32_t>(std::max<std::int64_t>(row.integer(5) - now, 0));
      entry.retention = Retention::kDisk;
    }
    return entries;
  });
  return listed ? *listed : std::vector<ListedResponse>();
}

std::vector<std::string> ResponseLog::children(const Hash128& owner, std::string_view id, UnixSeconds now) {
  const auto found = guarded(now, [&]() -> Result<std::vector<std::string>> {
    std::vector<std::string> ids;
    auto row = database_.query("SELECT id FROM responses WHERE parent = ? AND owner = ?");
    row.add(id).add_blob(view(owner));
    while (row.step()) ids.push_back(row.string(0));
    return ids;
  });
  return found ? *found : std::vector<std::string>();
}

Status ResponseLog::pin(const Hash128& owner, std::string_view id, UnixSeconds until, UnixSeconds now) {
  return guarded(now, [&]() -> Status {
    auto row = database_.query(
        "UPDATE responses SET pinned = ?1, expires = max(expires, ?1) WHERE id = ?2 AND owner = ?3 AND expires > ?4 RETURNING 1");
    bool found = false;
    for (row.add(until).add(id).add_blob(view(owner)).add(now); row.step();) found = true;
    return found ? ok_status() : Status(response_not_found(id));
  });
}

std::vector<PinnedResponse> ResponseLog::pinned(UnixSeconds now) {
  const auto found = guarded(now, [&]() -> Result<std::vector<PinnedResponse>> {
    std::vector<PinnedResponse> pins;
    auto row = database_.query("SELECT id, owner, pinned FROM responses WHERE pinned > 0 AND pinned > ?");  // > 0: the index has no others
    for (row.add(now); row.step();)
      pins.push_back({row.string(0), hash_of(row.bytes(1)), static_cast<std::uint32_t>(row.integer(2) - now)});
    return pins;
  });
  return found ? *found : std::vector<PinnedResponse>();
}

}  // namespace troupe::session
