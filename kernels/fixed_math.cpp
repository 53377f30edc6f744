#include "kernels/fixed_math.h"

#include <bit>
#include <cstdint>

namespace troupe::kernels {
namespace {

constexpr double kLn2High = 0x1.62e42fee00000p-1, kLn2Low = 0x1.a39ef35793c76p-33;

/// Nearest integer of |x| < 2^51, ties to even.
double nearest(double x) { return (x + 0x1.8p52) - 0x1.8p52; }

}  // namespace

double fixed_log(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  double mantissa = std::bit_cast<double>((bits & 0xfffffffffffffULL) | 0x3ff0000000000000ULL);
  if (mantissa > 0x1.6a09e667f3bcdp+0) {  // sqrt(2)
    mantissa = mantissa * 0.5;
    ++exponent;
  }
  // log m = 2 atanh(s), s = (m - 1) / (m + 1), |s| < 0.172
  const double s = (mantissa - 1.0) / (mantissa + 1.0), square = s * s;
  double series = 0;
  for (int k = 12; k >= 1; --k) series = (series + 1.0 / (2 * k + 1)) * square;
  const double high = exponent * kLn2High, low = exponent * kLn2Low;
  return high + (2.0 * s + (2.0 * s * series + low));
}

double fixed_exp(double x) {
  const double n = nearest(x * 0x1.71547652b82fep+0);
  const double r = (x - n * kLn2High) - n * kLn2Low;
  double series = 1.0;
  for (int k = 16; k >= 1; --k) series = 1.0 + series * r / k;
  return series * std::bit_cast<double>(static_cast<std::uint64_t>(static_cast<std::int64_t>(n) + 1023) << 52);
}

void fixed_sin_cos(double x, double& sine, double& cosine) {
  constexpr double kPart1 = 0x1.921fb544p+0, kPart2 = 0x1.0b4611a6p-34, kPart3 = 0x1.3198a2e037073p-69;
  const double n = nearest(x * 0x1.45f306dc9c883p-1);
  const double r = ((x - n * kPart1) - n * kPart2) - n * kPart3, square = r * r;
  double s = 1.0, c = 1.0;
  for (int k = 18; k >= 2; k -= 2) {
    s = 1.0 - s * square / (k * (k + 1));
    c = 1.0 - c * square / (k * (k - 1));
  }
  s = s * r;
  switch (static_cast<std::int64_t>(n) & 3) {
    case 0: sine = s, cosine = c; break;
    case 1: sine = c, cosine = -s; break;
    case 2: sine = -s, cosine = -c; break;
    default: sine = -c, cosine = s; break;
  }
}

}  // namespace troupe::kernels
