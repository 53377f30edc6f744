#include "runtime/session/response_log.h"
#include "runtime/session/response_store.h"
#include "tests/support/random.h"
#include "tests/support/scratch_folder.h"

#include <catch2/catch.hpp>

#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>

namespace troupe::session {
namespace {

namespace fs = std::filesystem;
constexpr Hash128 kAnna{1, 2}, kBerta{3, 4};
constexpr UnixSeconds kNow = 1'800'000'000;

ResponseLogOptions fresh(const std::string& name) {
  const auto folder = test::scratch_folder() / name;
  fs::remove_all(folder);
  return {.folder = folder, .busy_ms = 50};
}

StoredResponse response(std::string id, std::vector<TokenId> tokens, std::string parent = {}, std::uint32_t inherited = 0) {
  StoredResponse out;
  out.id = std::move(id);
  out.owner = kAnna;
  out.retention = Retention::kDisk;
  out.parent = std::move(parent);
  out.inherited = inherited;
  out.tokens = std::move(tokens);
  out.prompt_tokens = 2;
  out.model = "tiny";
  out.template_id = {5, 6};
  out.key_domain = {7, 8};
  out.record = "record of " + out.id;
  return out;
}

std::optional<std::vector<TokenId>> tokens_of(ResponseLog& log, std::string_view id, UnixSeconds now = kNow) {
  auto found = log.find(kAnna, id, now);
  if (!found) return std::nullopt;
  return found->tokens;
}

void overwrite(const fs::path& path, std::string_view bytes, std::streamoff at = 0) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(at);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

/// All of `bytes` in the file, changed.
std::size_t replace_all(const fs::path& path, const std::string& bytes, const std::string& others) {
  std::ifstream in(path, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(in)), {});
  std::size_t count = 0;
  for (auto at = whole.find(bytes); at != std::string::npos; at = whole.find(bytes, at + 1), ++count)
    overwrite(path, others, static_cast<std::streamoff>(at));
  return count;
}

TEST_CASE("a log gives back what was stored, after a restart too, to its owner") {
  const auto options = fresh("log_again");
  {
    ResponseLog log(options);
    REQUIRE(log.store(response("a", {1, 2, 3, 4}), kNow));
    REQUIRE(log.store(response("b", {9, 10}, "a", 3), kNow));
    CHECK_FALSE(log.store(response("b", {1}), kNow));
    CHECK_FALSE(log.store(response("c", {1}, "a", 5), kNow));
    CHECK_FALSE(log.store(response("c", {1}, "nobody", 1), kNow));
  }
  const auto file = options.folder / ResponseLog::kFileName;
  const auto mode = [&file] {
    struct stat info {};
    REQUIRE(::stat(file.c_str(), &info) == 0);
    return info.st_mode & 0777;
  };
  CHECK(mode() == 0600);
  fs::permissions(file, fs::perms::group_read | fs::perms::others_read, fs::perm_options::add);
  ResponseLog log(options);
  CHECK(tokens_of(log, "b") == std::vector<TokenId>{1, 2, 3, 9, 10});
  CHECK(mode() == 0600);
  const auto found = log.find(kAnna, "b", kNow);
  CHECK(found->prompt_tokens == 2);
  CHECK(found->model == "tiny");
  CHECK(found->template_id == Hash128{5, 6});
  CHECK(found->key_domain == Hash128{7, 8});
  CHECK(found->record == "record of b");
  CHECK(found->parent == "a");
  CHECK(log.size() == 2);
  for (const auto& missing : {log.find(kBerta, "b", kNow), log.find(kAnna, "x", kNow), log.find(kAnna, "b", kNow + 3600)})
    CHECK(missing.error().error_class == ErrorClass::kNotFound);
}

TEST_CASE("ids of a dropped parent stay in a log as long as a child needs them") {
  ResponseLog log(fresh("log_drop"));
  REQUIRE(log.store(response("a", {1, 2, 3, 4}), kNow));
  REQUIRE(log.store(response("b", {5}, "a", 4), kNow));
  REQUIRE(log.store(response("c", {6}, "b", 5), kNow));
  CHECK(log.children(kAnna, "a", kNow) == std::vector<std::string>{"b"});
  const std::vector<std::string> first{"a", "b"}, last{"c"};
  REQUIRE(log.drop(kBerta, first, kNow));
  CHECK(log.size() == 3);
  REQUIRE(log.drop(kAnna, first, kNow));
  CHECK_FALSE(tokens_of(log, "a"));
  CHECK(tokens_of(log, "c") == std::vector<TokenId>{1, 2, 3, 4, 5, 6});
  REQUIRE(log.drop(kAnna, last, kNow));
  CHECK(log.size() == 0);
  CHECK(log.bytes() == 0);
}

TEST_CASE("a log is bounded: the oldest go, pinned ones last, the newest never") {
  auto options = fresh("log_bound");
  options.max_bytes = 5 * 2200;
  ResponseLog log(options);
  for (int i = 0; i < 3; ++i) REQUIRE(log.store(response("r" + std::to_string(i), {1, 2, 3}), kNow));
  REQUIRE(log.pin(kAnna, "r0", kNow + 100, kNow));
  for (int i = 3; i < 9; ++i) {
    REQUIRE(log.store(response("r" + std::to_string(i), {1, 2, 3}), kNow));
    CHECK(log.bytes() <= options.max_bytes);
    CHECK(tokens_of(log, "r" + std::to_string(i)));
  }
  CHECK(tokens_of(log, "r0"));
  CHECK_FALSE(tokens_of(log, "r1"));
  for (const char* id : {"r6", "r7", "r8"}) REQUIRE(log.pin(kAnna, id, kNow + 100, kNow));
  REQUIRE(log.store(response("new", {1}), kNow));
  for (int i = 0; i < 4; ++i) REQUIRE(log.store(response("more" + std::to_string(i), {1}), kNow));
  CHECK(tokens_of(log, "more3"));
  CHECK(log.store(response("huge", std::vector<TokenId>(5000, 1)), kNow).error().error_class == ErrorClass::kStorageFailed);
  const auto before = log.bytes();
  CHECK(ResponseLog(options).open(kNow).error().error_class == ErrorClass::kStorageFailed);  // in use
  CHECK(log.bytes() == before);
}

TEST_CASE("responses on disk end by their time to live, a pin prolongs it") {
  const auto options = fresh("log_ttl");
  ResponseLog log(options);
  auto brief = response("brief", {1});
  brief.ttl = std::chrono::seconds(10);
  REQUIRE(log.store(brief, kNow));
  brief.id = "pinned";
  REQUIRE(log.store(brief, kNow));
  REQUIRE(log.pin(kAnna, "pinned", kNow + 50, kNow));
  CHECK_FALSE(log.pin(kBerta, "pinned", kNow + 50, kNow));
  const auto listed = log.list(kAnna, "", 10, kNow + 5);
  REQUIRE(listed.size() == 2);
  CHECK(listed[0].ttl_seconds_left == 5);
  CHECK(listed[1].pin_seconds_left == 45);
  CHECK(log.list(kAnna, "brief", 10, kNow)[0].id == "pinned");
  CHECK(log.list(kBerta, "", 10, kNow).empty());
  log.expire(kNow + 20);
  CHECK(log.size() == 1);
  REQUIRE(log.pinned(kNow + 20).size() == 1);
  CHECK(log.pinned(kNow + 20)[0].seconds_left == 30);
  REQUIRE(log.pin(kAnna, "pinned", 0, kNow + 20));
  CHECK(log.pinned(kNow + 20).empty());
  log.expire(kNow + 50);
  CHECK(log.size() == 0);
}

TEST_CASE("a file that cannot be read is moved aside; the log begins anew") {
  const auto options = fresh("log_aside");
  const auto file = options.folder / ResponseLog::kFileName;
  fs::create_directories(options.folder);
  SECTION("garbage") { std::ofstream(file) << std::string(5000, 'x'); }
  SECTION("a short one") { std::ofstream(file) << "SQL"; }
  SECTION("another version") {
    REQUIRE(ResponseLog(options).store(response("a", {1}), kNow));
    overwrite(file, std::string("\0\0\0\7", 4), 60);  // user_version
  }
  fs::permissions(file, fs::perms::owner_read | fs::perms::owner_write);
  ResponseLog log(options);
  REQUIRE(log.store(response("b", {1}), kNow));
  CHECK_FALSE(tokens_of(log, "a"));
  CHECK(tokens_of(log, "b"));
  CHECK(fs::exists(options.folder / ResponseLog::kAsideName));
}

TEST_CASE("ids or words that changed on the disk are never given back") {
  const auto options = fresh("log_flipped");
  const auto file = options.folder / ResponseLog::kFileName;
  {
    ResponseLog log(options);
    REQUIRE(log.store(response("a", {0x11223344, 0x55667788}), kNow));
    REQUIRE(log.store(response("b", {7}, "a", 2), kNow));
    REQUIRE(log.store(response("c", {8}), kNow));
    REQUIRE(log.store(response("d", {9}), kNow));
  }
  CHECK(replace_all(file, "\x44\x33\x22\x11", "\x45\x33\x22\x11") > 0);
  CHECK(replace_all(file, "record of c", "record on c") > 0);
  ResponseLog log(options);
  CHECK(log.find(kAnna, "b", kNow).error().error_class == ErrorClass::kCorrupted);
  CHECK(log.find(kAnna, "c", kNow).error().error_class == ErrorClass::kCorrupted);
  CHECK(log.find(kAnna, "c", kNow).error().error_class == ErrorClass::kNotFound);
  CHECK(tokens_of(log, "d") == std::vector<TokenId>{9});
}

TEST_CASE("a folder that cannot be written is an error, and tried again") {
  auto options = fresh("log_nowhere");
  std::ofstream(options.folder) << "no folder";
  ResponseLog log(options);
  const auto failed = log.store(response("a", {1}), kNow);
  REQUIRE_FALSE(failed);
  CHECK(failed.error().error_class == ErrorClass::kStorageFailed);
  CHECK(failed.error().client_text.find(options.folder.string()) == std::string::npos);
  fs::remove(options.folder);
  CHECK_FALSE(log.store(response("a", {1}), kNow + 1));  // not at each request
  CHECK(log.store(response("a", {1}), kNow + 10));
}

TEST_CASE("a full disk is an error; what was stored stays, and what comes later is stored again") {
  const auto options = fresh("log_full");
  ResponseLog log(options);
  REQUIRE(log.store(response("before", {1, 2}), kNow));
  // A limit on the size of files is as near to a full disk as a test gets without a disk of its own.
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 512 << 10;
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  std::vector<std::string> kept;
  Status stored = ok_status();
  for (int i = 0; i < 50 && stored; ++i) {
    kept.push_back("full" + std::to_string(i));
    stored = log.store(response(kept.back(), std::vector<TokenId>(20'000, 7)), kNow);
  }
  CHECK_FALSE(stored);
  CHECK(stored.error().error_class == ErrorClass::kStorageFailed);
  CHECK_FALSE(tokens_of(log, kept.back()));
  kept.pop_back();
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  std::signal(SIGXFSZ, handler);
  for (const auto& id : kept) CHECK(tokens_of(log, id));
  CHECK(tokens_of(log, "before") == std::vector<TokenId>{1, 2});
  CHECK(log.size() == kept.size() + 1);
  REQUIRE(log.store(response("after", {3}), kNow + 20));
}

TEST_CASE("a deleted file is noticed: what was in it is gone, what comes is on the disk") {
  const auto options = fresh("log_deleted");
  {
    ResponseLog log(options);
    REQUIRE(log.store(response("a", {1}), kNow));
    fs::remove(options.folder / ResponseLog::kFileName);
    CHECK_FALSE(tokens_of(log, "a"));
    REQUIRE(log.store(response("b", {2}), kNow));
  }
  ResponseLog log(options);
  CHECK(tokens_of(log, "b") == std::vector<TokenId>{2});
}

TEST_CASE("a link in the place of the file is not followed") {
  const auto options = fresh("log_link");
  fs::create_directories(options.folder);
  const auto elsewhere = test::scratch_folder() / "elsewhere.sqlite";
  std::ofstream(elsewhere).put(' ');
  fs::create_symlink(elsewhere, options.folder / ResponseLog::kFileName);
  ResponseLog log(options);
  CHECK_FALSE(log.store(response("a", {1}), kNow));
  CHECK(fs::file_size(elsewhere) == 1);
}

TEST_CASE("a random tree in a log is a tree in memory") {
  const auto options = fresh("log_model");
  test::SmallRandom random(7);
  std::optional<ResponseLog> log(options);
  std::map<std::string, std::vector<TokenId>> model;
  for (int i = 0; i < 200; ++i) {
    const auto pick = [&] { return std::next(model.begin(), static_cast<std::ptrdiff_t>(random.below(model.size())))->first; };
    if (model.size() > 20 && random.below(2) == 0) {
      const std::vector<std::string> dead{pick()};
      REQUIRE(log->drop(kAnna, dead, kNow));
      model.erase(dead[0]);
    } else {
      const std::string parent = model.empty() || random.below(4) == 0 ? "" : pick();
      auto whole = parent.empty() ? std::vector<TokenId>() : model[parent];
      const auto inherited = static_cast<std::uint32_t>(random.below(whole.size() + 1));
      whole.resize(inherited);
      std::vector<TokenId> own(random.below(50));
      for (auto& token : own) token = static_cast<TokenId>(random.below(50'000));
      whole.insert(whole.end(), own.begin(), own.end());
      const std::string id = "resp_" + std::to_string(i);
      REQUIRE(log->store(response(id, own, parent, inherited), kNow));
      model[id] = whole;
    }
    if (random.below(50) == 0) log.emplace(options);
  }
  for (const auto& [id, whole] : model) CHECK(tokens_of(*log, id) == whole);
  CHECK(log->size() == model.size());
  for (const auto& [id, whole] : model) REQUIRE(log->drop(kAnna, std::vector<std::string>{id}, kNow));
  CHECK(log->bytes() == 0);
}

// --- both places together ---

constexpr std::size_t kMemory = 10'000;
StoreTime at(int seconds) { return {TimePoint(std::chrono::seconds(1000 + seconds)), kNow + seconds}; }

TEST_CASE("children in one place of parents in the other") {
  ResponseStore store(std::chrono::seconds(3600), kMemory, fresh("store_both"));
  auto memory = response("memory", {1, 2, 3});
  memory.retention = Retention::kMemory;
  REQUIRE(store.store(memory, at(0)));
  REQUIRE(store.store(response("disk", {9}, "memory", 2), at(0)));
  auto again = response("again", {7}, "disk", 3);
  again.retention = Retention::kMemory;
  REQUIRE(store.store(again, at(0)));
  CHECK(store.find(kAnna, "disk", 0, at(0))->tokens == std::vector<TokenId>{1, 2, 9});
  CHECK(store.find(kAnna, "again", 0, at(0))->tokens == std::vector<TokenId>{1, 2, 9, 7});
  std::vector<std::string> ids;
  for (const auto& entry : store.list(kAnna, "again", 2, at(0))) ids.push_back(entry.id);
  CHECK(ids == std::vector<std::string>{"disk", "memory"});
  REQUIRE(store.pin(kAnna, "disk", std::chrono::seconds(60), at(0)));
  REQUIRE(store.pin(kAnna, "memory", std::chrono::seconds(60), at(0)));
  CHECK(store.pinned(at(30)).size() == 2);
  CHECK(store.drop(kAnna, "memory", true, at(0))->size() == 3);
  CHECK(store.size() == 0);
  CHECK(store.drop(kAnna, "memory", true, at(0)).error().error_class == ErrorClass::kNotFound);
}

TEST_CASE("a circle of parents in the file ends with all of it dropped") {
  ResponseStore store(std::chrono::seconds(3600), kMemory, fresh("store_circle"));
  REQUIRE(store.store(response("a", {1, 2}, "b"), at(0)));
  REQUIRE(store.store(response("b", {3, 4}, "a"), at(0)));
  const auto dropped = store.drop(kAnna, "a", true, at(0));
  REQUIRE(dropped);
  CHECK(*dropped == std::vector<std::string>{"a", "b"});
  CHECK(store.size() == 0);
}

TEST_CASE("where the disk fails a response is kept in memory, and said so") {
  auto options = fresh("store_fails");
  {
    ResponseStore store(std::chrono::seconds(3600), kMemory, options);
    REQUIRE(store.store(response("before", {1, 2}), at(0)));
    ResponseStore second(std::chrono::seconds(3600), kMemory, options);  // as another process would
    const auto stored = second.store(response("a", {5}), at(0));
    REQUIRE_FALSE(stored);
    CHECK(stored.error().error_class == ErrorClass::kStorageFailed);
    CHECK(second.find(kAnna, "a", 0, at(0))->tokens == std::vector<TokenId>{5});
    CHECK(second.find(kAnna, "before", 0, at(0)).error().error_class == ErrorClass::kStorageFailed);
  }
  ResponseStore without(std::chrono::seconds(3600), kMemory, std::nullopt);
  CHECK(without.store(response("a", {5}), at(0)).error().error_class == ErrorClass::kStorageFailed);
  CHECK(without.find(kAnna, "a", 0, at(0)));
}

}  // namespace
}  // namespace troupe::session
