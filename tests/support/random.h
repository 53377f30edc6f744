// SmallRandom: a tiny generator whose numbers are the same on every machine (no <random> distributions, no libm).
// splitmix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
#pragma once
#include <cstdint>

namespace troupe::test {

class SmallRandom {
 public:
  explicit SmallRandom(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15U);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9U;
    z = (z ^ z >> 27) * 0x94d049bb133111ebU;
    return z ^ z >> 31;
  }
  /// 0 ... bound - 1 (bound > 0; the tiny bias does not matter here).
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }
  /// [0, 1), 24 bits.
  float uniform() { return static_cast<float>(next() >> 40) * 0x1p-24F; }
  /// About normal, mean 0, deviation 1: the sum of 12 uniforms less 6, exact in every rounding mode that matters.
  float normal() {
    float sum = -6.0F;
    for (int i = 0; i < 12; ++i) sum += uniform();
    return sum;
  }

 private:
  std::uint64_t state_;
};

}  // namespace troupe::test
