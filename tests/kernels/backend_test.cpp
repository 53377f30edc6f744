// Choice of level and options of the CPU backend.
#include "tests/kernels/support.h"

#include <catch2/catch.hpp>
#include <cstdlib>

using namespace troupe::kernels;
using namespace troupe::kernels::testing;

TEST_CASE("levels are listed best first and end with the reference") {
  const std::vector<std::string> levels = cpu_isa_levels();
  REQUIRE_FALSE(levels.empty());
  CHECK(levels.back() == "ref");
  for (const std::string& isa : levels) {
    const auto backend = test_backend(isa, 2);
    CHECK(backend->name() == "cpu");
    CHECK(backend->threads() == 2);
    CHECK(backend->description() == "cpu " + isa + ", 2 threads");
    CHECK(backend->activations() == Activations::kInt8Group32);
  }
}

TEST_CASE("a level can be forced, and a wrong one is refused") {
  CHECK_THROWS_AS(test_backend("sse9", 1), std::invalid_argument);
  const char* before = std::getenv("TROUPE_CPU_ISA");
  const std::string kept = before ? before : "";
  setenv("TROUPE_CPU_ISA", "ref", 1);
  CHECK(test_backend("", 1)->description() == "cpu ref, 1 thread");
  setenv("TROUPE_CPU_ISA", "mmx", 1);
  CHECK_THROWS_AS(test_backend("", 1), std::invalid_argument);
  CHECK_NOTHROW(test_backend("ref", 1));  // the option wins
  if (before)
    setenv("TROUPE_CPU_ISA", kept.c_str(), 1);
  else
    unsetenv("TROUPE_CPU_ISA");
}

TEST_CASE("the number of threads defaults to the cores") {
  CpuOptions options;
  options.pin = false;
  options.spin_us = 0;
  CHECK(make_cpu_backend(options)->threads() >= 1);
}
