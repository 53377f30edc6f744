#include "runtime/sample/philox.h"

#include <catch2/catch.hpp>

#include <set>

using namespace troupe::sample;

TEST_CASE("Philox4x32-10 gives the published vectors", "[philox]") {
  // Known answers of the authors' library (Random123, kat_vectors).
  using Block = std::array<std::uint32_t, 4>;
  CHECK(philox4x32({0, 0, 0, 0}, {0, 0}) == Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}) ==
        Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("A draw depends on seed, choice and position, all of each", "[philox]") {
  const float base = uniform(1, 0, 7);
  CHECK(uniform(1, 0, 7) == base);
  CHECK(uniform(2, 0, 7) != base);
  CHECK(uniform(1 + (std::uint64_t{1} << 32), 0, 7) != base);
  CHECK(uniform(1, 1, 7) != base);
  CHECK(uniform(1, 0, 8) != base);
  CHECK(uniform(1, 7, 0) != uniform(1, 0, 7));
}

TEST_CASE("Draws fill [0, 1) evenly", "[philox]") {
  constexpr int kDraws = 100000, kBins = 10;
  std::array<int, kBins> bins{};
  double sum = 0;
  for (std::uint32_t i = 0; i < kDraws; ++i) {
    const float u = uniform(42, 3, i);
    REQUIRE(u >= 0.0F);
    REQUIRE(u < 1.0F);
    sum += u;
    ++bins[static_cast<std::size_t>(u * kBins)];
  }
  CHECK(sum / kDraws == Approx(0.5).margin(0.005));
  for (const int bin : bins) CHECK(bin == Approx(kDraws / kBins).epsilon(0.05));
}
