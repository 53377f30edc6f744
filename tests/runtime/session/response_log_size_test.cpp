// A log with many responses of others: what one client asks for costs about its own rows, not all of them.
#include "runtime/session/response_log.h"
#include "tests/support/scratch_folder.h"

#include <catch2/catch.hpp>

#include <ctime>
#include <filesystem>
#include <string>

namespace troupe::session {
namespace {

constexpr Hash128 kAnna{1, 2};
constexpr UnixSeconds kNow = 1'800'000'000;
constexpr int kOthers = 20'000;

/// Of the processor: neither other programs nor the disk count.
template <typename Work>
double seconds_of(Work work) {
  const auto begin = std::clock();
  work();
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

StoredResponse response(std::string id) {
  StoredResponse out;
  out.id = std::move(id);
  out.owner = kAnna;
  out.retention = Retention::kDisk;
  out.tokens = {1, 2, 3};
  out.record = "record";
  return out;
}

TEST_CASE("listing, pins and eviction do not read the responses of others") {
  ResponseLogOptions options{.folder = test::scratch_folder() / "log_size"};
  std::filesystem::remove_all(options.folder);
  REQUIRE(ResponseLog(options).store(response("anna"), kNow));
  double scan = 0;
  {
    Sqlite file;
    file.open((options.folder / ResponseLog::kFileName).string(), 50);
    file.run_once(
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < " + std::to_string(kOthers) +
        ") INSERT INTO responses (id, owner, parent, path, lane, model, template, domain, prompt, record, sum, expires) "
        "SELECT 'other' || i, x'0102', '', path, '', '', x'', x'', 0, zeroblob(200), x'', expires FROM n, responses WHERE id = 'anna'");
    scan = seconds_of([&] {
             for (int i = 0; i < 10; ++i) CHECK(file.integer("SELECT count(*) FROM responses WHERE model = 'none'") == 0);
           }) /
           10;
  }
  {
    ResponseLog log(options);
    CHECK(log.list(kAnna, "", 10, kNow).size() == 1);
    REQUIRE(log.pin(kAnna, "anna", kNow + 100, kNow));
    CHECK(log.size() == kOthers + 1);
    options.max_bytes = log.bytes() - 200 * 1224;
    CHECK(seconds_of([&] {
            for (int i = 0; i < 300; ++i) CHECK(log.list(kAnna, "", 10, kNow).size() == 1);
          }) < 100 * scan);
    CHECK(seconds_of([&] {
            for (int i = 0; i < 300; ++i) CHECK(log.pinned(kNow).size() == 1);
          }) < 100 * scan);
  }
  ResponseLog small(options);
  REQUIRE(small.open(kNow));
  CHECK(seconds_of([&] { CHECK(small.store(response("new"), kNow)); }) < 100 * scan);
  CHECK(small.size() < kOthers - 190);
  CHECK(small.find(kAnna, "anna", kNow));
}

}  // namespace
}  // namespace troupe::session
