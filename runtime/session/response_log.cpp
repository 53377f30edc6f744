#include "runtime/session/response_log.h"

#include "messages/error_reasons.h"
#include "runtime/base/cache_folder.h"
#include "runtime/base/log.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace troupe::session {
namespace {

namespace fs = std::filesystem;
constexpr std::int64_t kVersion = 1;  // of the tables
constexpr UnixSeconds kTryAgain = 10;
constexpr std::uint64_t kPageBytes = 4096;

constexpr std::string_view kTables[] = {
    "CREATE TABLE paths (path INTEGER PRIMARY KEY, parent INTEGER, inherited INTEGER NOT NULL, tokens BLOB NOT NULL, sum BLOB NOT NULL)",
    "CREATE INDEX paths_by_parent ON paths (parent)",
    // The record is last: columns behind it would be reached through all of its pages.
    "CREATE TABLE responses (number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, owner BLOB NOT NULL, parent TEXT NOT NULL, "
    "path INTEGER NOT NULL, lane TEXT NOT NULL, model TEXT NOT NULL, template BLOB NOT NULL, domain BLOB NOT NULL, prompt INTEGER NOT "
    "NULL, sum BLOB NOT NULL, expires INTEGER NOT NULL, pinned INTEGER NOT NULL DEFAULT 0, record BLOB NOT NULL)",
    "CREATE INDEX responses_by_owner ON responses (owner, id)",
    "CREATE INDEX responses_by_pin ON responses (pinned) WHERE pinned > 0",
    "CREATE INDEX responses_by_parent ON responses (parent)",
    "CREATE INDEX responses_by_path ON responses (path)",
    "CREATE INDEX responses_by_expiry ON responses (expires)",
};

/// A file of this user alone, that nobody has put a link or something else in the place of.
void make_file(const std::string& path) {
  const base::Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
  struct stat info {};
  if (!file || ::fstat(file.get(), &info) != 0) throw SqliteFailure(SQLITE_CANTOPEN, std::strerror(errno));
  if (!S_ISREG(info.st_mode) || info.st_uid != ::geteuid() || (info.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    throw SqliteFailure(SQLITE_CANTOPEN, "it is not a file of this user alone");
  ::fchmod(file.get(), 0600);  // a copy that was put back may have become readable
}

}  // namespace

Status ResponseLog::open(UnixSeconds now) {
  return guarded(now, [] { return ok_status(); });
}

void ResponseLog::connect(UnixSeconds now) {
  if (database_ && database_.moved()) {
    base::log(base::LogLevel::kWarning, "stored_responses_gone",
              "path=" + base::log_value(path_) + " reason=\"the file was deleted or moved\"");
    database_.close();
  }
  if (database_) return;
  if (now < try_again_) throw SqliteFailure(SQLITE_CANTOPEN, why_);
  responses_ = 0;
  bytes_ = 0;
  const base::CacheFolder folder(options_.folder);
  if (const auto made = folder.make(); !made) {
    why_ = made.error().client_text;
    try_again_ = now + kTryAgain;
    throw SqliteFailure(SQLITE_CANTOPEN, why_);
  }
  std::error_code error;
  const auto real = fs::canonical(options_.folder, error);  // SQLite follows no link in any part of a path
  path_ = ((error ? options_.folder : real) / kFileName).string();
  try {
    try {
      make_file(path_);
      make_tables(now);
    } catch (const SqliteFailure& failure) {
      if (failure.code != SQLITE_NOTADB && failure.code != SQLITE_CORRUPT) throw;
      move_aside(failure.what());
      make_file(path_);
      make_tables(now);
    }
  } catch (const SqliteFailure& failure) {
    database_.close();
    try_again_ = now + kTryAgain;
    why_ = failure.code == SQLITE_BUSY ? "another process uses the file" : failure.what();
    throw;
  }
}

void ResponseLog::make_tables(UnixSeconds now) {
  database_.open(path_, options_.busy_ms);
  // Alone on the file: no other process writes into it, and there is no memory shared with one.
  database_.run("PRAGMA locking_mode = EXCLUSIVE");
  database_.run("PRAGMA journal_mode = WAL");
  database_.run("PRAGMA synchronous = FULL");
  database_.run("PRAGMA cell_size_check = ON");
  database_.run("PRAGMA trusted_schema = OFF");
  database_.run("PRAGMA secure_delete = ON");  // what a user deletes is gone
  database_.run("PRAGMA journal_size_limit = 4194304");
  const auto version = database_.integer("PRAGMA user_version");
  const auto tables = database_.integer("SELECT count(*) FROM sqlite_schema");
  if (version != kVersion && (version != 0 || tables != 0))
    throw SqliteFailure(SQLITE_NOTADB, "it is of version " + std::to_string(version) + ", not " + std::to_string(kVersion));
  SqliteTransaction transaction(database_);  // also where there is nothing to make: the file is locked from here on
  if (version == 0) {
    for (const auto table : kTables) database_.run(table);
    database_.run("PRAGMA user_version = 1");
  }
  erase_expired(now);
  transaction.commit();
  // The hard bound, with room for what lies between the rows.
  database_.run_once("PRAGMA max_page_count = " + std::to_string(std::max<std::uint64_t>(options_.max_bytes / kPageBytes * 3 / 2, 256)));
  count();
}

void ResponseLog::move_aside(std::string_view why) {
  database_.close();
  const fs::path aside = fs::path(path_).parent_path() / kAsideName;
  std::error_code error;
  fs::rename(path_, aside, error);
  const bool moved = !error;
  fs::remove(path_ + "-wal", error);  // it belongs to the file that is gone
  base::log(base::LogLevel::kWarning, "stored_responses_unreadable",
            "path=" + base::log_value(path_) + (moved ? " moved_to=" + base::log_value(aside.string()) : " not_moved=1") +
                " reason=" + base::log_value(std::string(why)));
}

void ResponseLog::count() {
  responses_ = static_cast<std::size_t>(database_.integer("SELECT count(*) FROM responses"));
  bytes_ =
      static_cast<std::uint64_t>(database_.integer("SELECT (SELECT coalesce(sum(length(tokens) + 1024), 0) FROM paths) + "
                                                   "(SELECT coalesce(sum(length(record) + 1024), 0) FROM responses)"));
}

Error ResponseLog::failed(const SqliteFailure& failure) {
  if (database_) {
    why_ = failure.what();
    try {
      if (failure.code == SQLITE_CORRUPT || failure.code == SQLITE_NOTADB)
        move_aside(failure.what());
      else
        count();  // of what is there now
    } catch (const SqliteFailure&) {
      database_.close();
    }
  }
  if (!std::exchange(failing_, true))
    base::log(base::LogLevel::kWarning, "responses_not_on_disk",
              "path=" + base::log_value(path_.empty() ? options_.folder.string() : path_) + " reason=" + base::log_value(why_));
  return make_error(ErrorClass::kStorageFailed, ErrorReason::kUnclassified, "The responses on disk are out of reach at the moment.", {},
                    why_);
}

void ResponseLog::erase(std::int64_t number, std::int64_t path) {
  {
    auto row = database_.query("DELETE FROM responses WHERE number = ? RETURNING length(record)");
    if (row.add(number).step()) {
      bytes_ -= std::min(bytes_, static_cast<std::uint64_t>(row.integer(0) + kRowBytes));
      --responses_;
    }
  }
  // Its ids, and those of its parents, as far as nobody else needs them.
  while (path != 0) {
    auto row = database_.query(
        "DELETE FROM paths WHERE path = ?1 AND NOT EXISTS (SELECT 1 FROM responses WHERE path = ?1) "
        "AND NOT EXISTS (SELECT 1 FROM paths AS child WHERE child.parent = ?1) RETURNING parent, length(tokens)");
    if (!row.add(path).step()) return;
    path = row.integer(0);
    bytes_ -= std::min(bytes_, static_cast<std::uint64_t>(row.integer(1) + kRowBytes));
  }
}

void ResponseLog::erase_expired(UnixSeconds now) {
  while (true) {
    std::int64_t number = 0, path = 0;
    {
      auto row = database_.query("SELECT number, path FROM responses WHERE expires <= ? LIMIT 1");
      if (!row.add(now).step()) return;
      number = row.integer(0);
      path = row.integer(1);
    }
    erase(number, path);
  }
}

void ResponseLog::make_room(UnixSeconds now) {
  while (bytes_ > options_.max_bytes && responses_ > 1) {
    std::int64_t number = 0, path = 0;
    {
      // In the order of their numbers, so that nothing is sorted: the first that is not pinned, or else the first.
      auto row = database_.query(
          "SELECT * FROM (SELECT number, path FROM responses WHERE number < (SELECT max(number) FROM responses) AND pinned <= ? "
          "ORDER BY number LIMIT 1) UNION ALL SELECT * FROM (SELECT number, path FROM responses WHERE number < (SELECT max(number) FROM "
          "responses) ORDER BY number LIMIT 1) LIMIT 1");
      if (!row.add(now).step()) return;
      number = row.integer(0);
      path = row.integer(1);
    }
    erase(number, path);
  }
}

void ResponseLog::expire(UnixSeconds now) {
  static_cast<void>(guarded(now, [&]() -> Status {
    SqliteTransaction transaction(database_);
    erase_expired(now);
    transaction.commit();
    return ok_status();
  }));
}

}  // namespace troupe::session
