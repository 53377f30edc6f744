// Sqlite: a connection to one SQLite file and its prepared statements, as far as the response log needs them. Owned by its user; one
// thread at a time. Failures are SqliteFailure, which the user catches at its own border: between two of them stands a transaction.
#pragma once
#include <sqlite3.h>

#include <cstdint>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace troupe::session {

struct SqliteFailure : std::runtime_error {
  SqliteFailure(int result, const std::string& text) : std::runtime_error(text), code(result & 0xff) {}
  int code;  // primary result code
};

/// One use of a prepared statement: bind, step, read; unbound again at the end of its scope.
class SqliteQuery {
 public:
  explicit SqliteQuery(sqlite3_stmt* statement) : statement_(statement) {}
  ~SqliteQuery();
  SqliteQuery(const SqliteQuery&) = delete;
  SqliteQuery& operator=(const SqliteQuery&) = delete;

  /// Values of ?1, ?2, ... in order. Texts and blobs must outlive the query.
  SqliteQuery& add(std::int64_t value);
  SqliteQuery& add(std::string_view text);
  SqliteQuery& add_blob(std::string_view bytes);
  /// True: there is a row to read.
  bool step();
  /// A statement without rows.
  void run() {
    while (step()) {
    }
  }
  std::int64_t integer(int column) const { return sqlite3_column_int64(statement_, column); }
  /// Valid until the next step(). Of a text or a blob.
  std::string_view bytes(int column) const;
  std::string string(int column) const { return std::string(bytes(column)); }

 private:
  void check(int result) const;
  sqlite3_stmt* statement_;
  int next_ = 1;
};

class Sqlite {
 public:
  Sqlite() = default;
  ~Sqlite() { close(); }
  Sqlite(const Sqlite&) = delete;
  Sqlite& operator=(const Sqlite&) = delete;

  /// The file must be there; no link is followed.
  void open(const std::string& path, int busy_ms);
  void close();
  explicit operator bool() const { return database_ != nullptr; }
  /// Prepared once; `text` must be a literal.
  SqliteQuery query(std::string_view text);
  void run(std::string_view text) { query(text).run(); }
  /// Not kept prepared: `text` may be any.
  void run_once(const std::string& text);
  std::int64_t integer(std::string_view text);
  /// Whether somebody has moved or deleted the file meanwhile: what is written then goes nowhere.
  bool moved() const;

 private:
  sqlite3* database_ = nullptr;
  std::map<std::string_view, sqlite3_stmt*> statements_;
};

/// Undone unless commit() was reached.
class SqliteTransaction {
 public:
  explicit SqliteTransaction(Sqlite& database) : database_(database) { database_.run("BEGIN IMMEDIATE"); }
  ~SqliteTransaction();
  SqliteTransaction(const SqliteTransaction&) = delete;
  SqliteTransaction& operator=(const SqliteTransaction&) = delete;
  void commit();

 private:
  Sqlite& database_;
  bool open_ = true;
};

}  // namespace troupe::session
