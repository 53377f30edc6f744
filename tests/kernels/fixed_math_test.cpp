// Fixed polynomials and the RoPE table against long double libm.
#include "kernels/backend.h"
#include "kernels/fixed_math.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <stdexcept>

using namespace troupe::kernels;

TEST_CASE("logarithm and exponential") {
  for (int i = 1; i < 4000; ++i) {
    const double x = std::ldexp(1.0 + i / 4000.0, i % 200 - 100);
    CHECK(fixed_log(x) == Approx(static_cast<double>(std::log(static_cast<long double>(x)))).epsilon(4e-15).margin(1e-16));
    const double y = (i - 2000) * 0.0371;
    CHECK(fixed_exp(y) == Approx(static_cast<double>(std::exp(static_cast<long double>(y)))).epsilon(4e-15));
  }
  CHECK(fixed_log(1.0) == 0.0);
  CHECK(fixed_exp(0.0) == 1.0);
}

TEST_CASE("sine and cosine") {
  for (int i = 0; i < 20000; ++i) {
    const double x = i * 78.123456789 * (i % 7 ? 0.001 : 1.0);
    double sine = 0, cosine = 0;
    fixed_sin_cos(x, sine, cosine);
    const auto exact = static_cast<long double>(x);
    if (std::fabs(sine - static_cast<double>(std::sin(exact))) > 3e-15) FAIL("sin " << x);
    if (std::fabs(cosine - static_cast<double>(std::cos(exact))) > 3e-15) FAIL("cos " << x);
  }
}

TEST_CASE("RoPE table") {
  struct {
    std::size_t dim;
    double base;
  } const cases[] = {{64, 10000.0}, {64, 100000.0}, {128, 500000.0}, {16, 1.0}};
  for (const auto& c : cases) {
    const std::size_t positions = 8192;
    const RopeTable table = make_rope_table(c.dim, c.base, positions);
    REQUIRE(table.half == c.dim / 2);
    REQUIRE(table.cos.size() == positions * table.half);
    for (std::size_t p = 0; p < positions; p += 37)
      for (std::size_t i = 0; i < table.half; ++i) {
        const long double exponent = -2.0L * static_cast<long double>(i) / static_cast<long double>(c.dim);
        const long double angle = static_cast<long double>(p) * std::pow(static_cast<long double>(c.base), exponent);
        // Half a unit of fp32 in the last place of 1, and nothing more.
        if (std::fabs(static_cast<double>(std::cos(angle)) - table.cos[p * table.half + i]) > 3.1e-8) FAIL("cos " << p << " " << i);
        if (std::fabs(static_cast<double>(std::sin(angle)) - table.sin[p * table.half + i]) > 3.1e-8) FAIL("sin " << p << " " << i);
      }
  }
  CHECK_THROWS_AS(make_rope_table(63, 10000.0, 8), std::invalid_argument);
  CHECK_THROWS_AS(make_rope_table(64, 0.0, 8), std::invalid_argument);
  CHECK_THROWS_AS(make_rope_table(64, std::nan(""), 8), std::invalid_argument);
}
