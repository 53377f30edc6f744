// Runs every .scn file of this folder.
#include "tests/scenarios/scenario.h"

#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>

namespace troupe::schedule::test {

TEST_CASE("scenarios") {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TROUPE_SCENARIOS)) {
    if (entry.path().extension() != ".scn") continue;
    ++files;
    INFO(entry.path().filename().string());
    CHECK_NOTHROW(Scenario::run(entry.path()));
  }
  CHECK(files >= 15);
}

TEST_CASE("a scenario that does not hold fails") {
  const auto file = std::filesystem::temp_directory_path() / "troupe_failing.scn";
  for (const char* text : {"group blocks=8 context=64\nsubmit A prompt=4 max=1\nexpect plan nonsense\n",
                           "group blocks=8 context=64\nsubmit A prompt=4 max=1\nstep\nexpect tokens A 2\n", "frobnicate\n"}) {
    std::ofstream(file) << text;
    CHECK_THROWS(Scenario::run(file));
  }
  std::filesystem::remove(file);
}

}  // namespace troupe::schedule::test
