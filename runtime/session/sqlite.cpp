#include "runtime/session/sqlite.h"

namespace troupe::session {
namespace {

[[noreturn]] void fail(sqlite3* database, int result) {
  throw SqliteFailure(result, database != nullptr ? sqlite3_errmsg(database) : sqlite3_errstr(result));
}

}  // namespace

SqliteQuery::~SqliteQuery() {
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
}

void SqliteQuery::check(int result) const {
  if (result != SQLITE_OK) fail(sqlite3_db_handle(statement_), result);
}

SqliteQuery& SqliteQuery::add(std::int64_t value) {
  check(sqlite3_bind_int64(statement_, next_++, value));
  return *this;
}

SqliteQuery& SqliteQuery::add(std::string_view text) {
  check(sqlite3_bind_text64(statement_, next_++, text.empty() ? "" : text.data(), text.size(), SQLITE_STATIC, SQLITE_UTF8));
  return *this;
}

SqliteQuery& SqliteQuery::add_blob(std::string_view bytes) {
  check(sqlite3_bind_blob64(statement_, next_++, bytes.empty() ? "" : bytes.data(), bytes.size(), SQLITE_STATIC));
  return *this;
}

bool SqliteQuery::step() {
  const int result = sqlite3_step(statement_);
  if (result == SQLITE_ROW) return true;
  if (result != SQLITE_DONE) fail(sqlite3_db_handle(statement_), result);
  return false;
}

std::string_view SqliteQuery::bytes(int column) const {
  const auto* data = static_cast<const char*>(sqlite3_column_blob(statement_, column));
  return {data == nullptr ? "" : data, static_cast<std::size_t>(sqlite3_column_bytes(statement_, column))};
}

void Sqlite::open(const std::string& path, int busy_ms) {
  close();
  const int result = sqlite3_open_v2(path.c_str(), &database_,
                                     SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_EXRESCODE, nullptr);
  if (result != SQLITE_OK) {
    const std::string text = database_ != nullptr ? sqlite3_errmsg(database_) : sqlite3_errstr(result);
    close();
    throw SqliteFailure(result, text);
  }
  sqlite3_busy_timeout(database_, busy_ms);
}

void Sqlite::close() {
  for (const auto& [text, statement] : statements_) sqlite3_finalize(statement);
  statements_.clear();
  sqlite3_close(database_);
  database_ = nullptr;
}

SqliteQuery Sqlite::query(std::string_view text) {
  auto& statement = statements_[text];
  if (statement == nullptr) {
    const int result =
        sqlite3_prepare_v3(database_, text.data(), static_cast<int>(text.size()), SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
    if (result != SQLITE_OK) fail(database_, result);
  }
  return SqliteQuery(statement);
}

void Sqlite::run_once(const std::string& text) {
  const int result = sqlite3_exec(database_, text.c_str(), nullptr, nullptr, nullptr);
  if (result != SQLITE_OK) fail(database_, result);
}

std::int64_t Sqlite::integer(std::string_view text) {
  auto row = query(text);
  return row.step() ? row.integer(0) : 0;
}

bool Sqlite::moved() const {
  int moved = 0;
  return sqlite3_file_control(database_, "main", SQLITE_FCNTL_HAS_MOVED, &moved) == SQLITE_OK && moved != 0;
}

SqliteTransaction::~SqliteTransaction() {
  if (!open_) return;
  try {
    database_.run("ROLLBACK");
  } catch (const SqliteFailure&) {
    // SQLite has rolled back by itself: after an I/O error, or on a full disk.
  }
}

void SqliteTransaction::commit() {
  database_.run("COMMIT");
  open_ = false;
}

}  // namespace troupe::session
