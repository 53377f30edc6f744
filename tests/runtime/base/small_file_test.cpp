// Small files: whole, or an error about the option; nothing that has no end is read for ever.
#include "runtime/base/small_file.h"

#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

using namespace troupe::base;

TEST_CASE("small files") {
  const auto path = (std::filesystem::temp_directory_path() / ("troupe_small_" + std::to_string(::getpid()))).string();
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, kSmallFileBytes}) {
    std::ofstream(path, std::ios::binary) << std::string(size, '\n');
    REQUIRE(read_small_file(path, "o").ok());
    CHECK(read_small_file(path, "o")->size() == size);
  }
  std::ofstream(path, std::ios::binary) << std::string(kSmallFileBytes + 1, 'x');
  CHECK(read_small_file(path, "o").error().client_text == "--o " + path + ": has more than 1048576 bytes");
  std::filesystem::remove(path);
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);  // nobody writes into it: who waits for that waits for ever
  CHECK(read_small_file(path, "o").error().client_text == "--o " + path + ": is no plain file");
  std::filesystem::remove(path);
  for (const char* bad : {"/no/such/file", "/", "/dev/zero"}) {
    INFO(bad);
    REQUIRE_FALSE(read_small_file(bad, "tls-key").ok());
    CHECK(read_small_file(bad, "tls-key").error().parameter == "tls-key");
  }
}
