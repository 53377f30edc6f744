// Key files: what is a key, and errors that name the line but never the key.
#include "cluster/key_file.h"
#include "runtime/base/hash.h"

#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>
#include <unistd.h>

using namespace troupe;
using namespace troupe::cluster;

namespace {

Result<std::vector<Hash128>> keys_of(const std::string& text) {
  const auto path = std::filesystem::temp_directory_path() / ("troupe_keys_" + std::to_string(::getpid()));
  std::ofstream(path, std::ios::binary) << text;
  auto keys = read_key_file(path.string(), "api-key-file");
  std::filesystem::remove(path);
  return keys;
}

}  // namespace

TEST_CASE("keys, one a line") {
  auto keys = keys_of("# team\none\r\n\n  \ntwo  \nthree");
  REQUIRE(keys.ok());
  CHECK(*keys == std::vector<Hash128>{base::hash_text("one"), base::hash_text("two"), base::hash_text("three")});
}

TEST_CASE("faults name the line, not the key") {
  for (const std::string& text : {std::string("good\nse cret\n"), std::string("good\nse\tcret\n"), std::string("good\nsecr\xc3\xa9t\n"),
                                  "good\n" + std::string(600, 'x') + "\n"}) {
    auto keys = keys_of(text);
    REQUIRE_FALSE(keys.ok());
    CHECK(keys.error().client_text.find("line 2") != std::string::npos);
    CHECK(keys.error().client_text.find("cret") == std::string::npos);
    CHECK(keys.error().client_text.find("xxx") == std::string::npos);
  }
  CHECK_FALSE(keys_of("").ok());
  CHECK_FALSE(keys_of("# none\n").ok());
  CHECK_FALSE(read_key_file("/no/such/file", "api-key-file").ok());
  CHECK_FALSE(read_key_file("/", "api-key-file").ok());
  CHECK(read_key_file("/dev/zero", "admin-key-file").error().client_text.find("is no plain file") != std::string::npos);
  CHECK_FALSE(keys_of(std::string(2 << 20, '\n') + "good\n").ok());
}
