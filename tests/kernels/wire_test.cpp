// Rows as they travel between ranks: every format's error bound on inputs of all kinds, sums in their one order, the same bytes and bits on
// every level and any number of threads. (The bytes that kernels may touch: conformance/wire_cases.cpp.)
#include "tests/kernels/support.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

using namespace troupe::kernels;
using namespace troupe::kernels::testing;

namespace {

constexpr std::size_t kWidths[] = {1, 2, 3, 15, 16, 17, 31, 33, 64, 100, 127, 129, 300, 576, 1000, 1024, 1100, 2048, 2304};

/// A format as README.md tells it, written apart from the kernels.
struct Shape {
  WireFormat format;
  std::size_t group = 0;  // values that share a scale; 0: no scales
  unsigned bits = 0;
  int levels() const { return (1 << (bits - 1)) - 1; }
};
constexpr Shape kShapes[] = {{WireFormat::kFp32},
                             {WireFormat::kBf16},
                             {WireFormat::kInt8Group128, 128, 8},
                             {WireFormat::kInt8Group32, 32, 8},
                             {WireFormat::kInt6Group32, 32, 6},
                             {WireFormat::kInt4Group32, 32, 4}};

float nan() { return std::numeric_limits<float>::quiet_NaN(); }
float infinity() { return std::numeric_limits<float>::infinity(); }

std::vector<float> encoded_scales(const Shape& shape, const std::vector<float>& x) {
  std::vector<float> scales;
  for (std::size_t first = 0; first < x.size(); first += shape.group) {
    float amax = 0;
    bool finite = true;
    for (std::size_t i = first; i < std::min(x.size(), first + shape.group); ++i) {
      finite &= std::isfinite(x[i]);
      amax = std::max(amax, std::fabs(x[i]));
    }
    scales.push_back(finite ? amax / static_cast<float>(shape.levels()) : nan());
  }
  return scales;
}

std::vector<std::byte> reference_encode(const Shape& shape, const std::vector<float>& x) {
  std::vector<std::byte> bytes;
  const auto put = [&](auto value) {
    const auto* from = reinterpret_cast<const std::byte*>(&value);
    bytes.insert(bytes.end(), from, from + sizeof value);
  };
  if (shape.format == WireFormat::kFp32) {
    for (const float v : x) put(v);
  } else if (shape.format == WireFormat::kBf16) {
    for (const float v : x) {
      const auto u = std::bit_cast<std::uint32_t>(v);
      put(static_cast<std::uint16_t>((std::isnan(v) ? u | 0x400000U : u + 0x7fffU + (u >> 16 & 1U)) >> 16));
    }
  } else {
    const std::vector<float> scales = encoded_scales(shape, x);
    for (const float scale : scales) put(scale);
    std::vector<bool> bits;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t first = i / shape.group * shape.group;
      float amax = 0;
      for (std::size_t j = first; j < std::min(x.size(), first + shape.group); ++j) amax = std::max(amax, std::fabs(x[j]));
      const bool finite = !std::isnan(scales[i / shape.group]);
      const float factor = amax > 0x1p-100F ? static_cast<float>(shape.levels()) / amax : 0.0F;
      int q = finite ? static_cast<int>(std::nearbyint(x[i] * factor)) : 0;
      if (shape.bits < 8) q += 1 << (shape.bits - 1);
      for (unsigned b = 0; b < shape.bits; ++b) bits.push_back((static_cast<unsigned>(q) >> b & 1U) != 0);
    }
    bits.resize((bits.size() + 7) / 8 * 8);
    for (std::size_t i = 0; i < bits.size(); i += 8) {
      unsigned byte = 0;
      for (unsigned b = 0; b < 8; ++b) byte |= static_cast<unsigned>(bits[i + b]) << b;
      put(static_cast<std::uint8_t>(byte));
    }
  }
  while (bytes.size() % 4 != 0) bytes.push_back(std::byte{0});
  return bytes;
}

/// A backend for each level and number of threads.
struct Engine {
  std::string isa;
  std::size_t threads;
  std::unique_ptr<Backend> backend;
};
std::vector<Engine> engines(std::initializer_list<std::size_t> thread_counts) {
  std::vector<Engine> all;
  for (const std::string& isa : cpu_isa_levels())
    for (const std::size_t threads : thread_counts) all.push_back({isa, threads, test_backend(isa, threads)});
  return all;
}

std::vector<std::byte> encode(Backend& backend, const Shape& shape, const Rows& x) {
  std::vector<std::byte> bytes(x.count * wire_row_bytes(shape.format, x.width), std::byte{0xee});
  backend.encode(x, shape.format, bytes);
  return bytes;
}
std::vector<float> decode(Backend& backend, const Shape& shape, const std::vector<std::byte>& bytes, std::size_t width) {
  OwnedRows y(1, width);
  const std::span<const std::byte> part = bytes;
  backend.decode_sum({&part, 1}, shape.format, y.rows, Output::kStore);
  return y.data;
}
Rows row_of(std::vector<float>& x) { return {x.data(), 1, x.size(), x.size()}; }

struct Input {
  const char* name;
  std::vector<float> values;
};
std::vector<Input> inputs(std::size_t width) {
  Random random(width);
  std::vector<Input> all{{"random", normals(random, width)},          {"outliers", normals(random, width)},
                         {"zero", std::vector<float>(width)},         {"denormal", normals(random, width, 1e-39F)},
                         {"tiny", normals(random, width, 0x1p-100F)}, {"huge", normals(random, width, 1e37F)}};
  for (std::size_t i = 5; i < width; i += 61) all[1].values[i] *= 50.0F;
  for (std::size_t i = 0; i < width; i += 3) all[2].values[i] = -0.0F;
  return all;
}

/// What a decoded value may differ from x by. Below 2^-100 a group of small integers is zero.
double bound(const Shape& shape, float x, float scale) {
  if (shape.format == WireFormat::kFp32) return 0;
  if (shape.format == WireFormat::kBf16) return std::fabs(x) * 0x1p-8 + 0x1p-134;
  return std::max(0.5 * scale * (1 + 1e-5), 0x1p-100);
}

}  // namespace

TEST_CASE("a wire row has the bytes that its description says, on every level", "[wire]") {
  const std::vector<Engine> all = engines({1});
  for (const std::size_t width : kWidths)
    for (Input& input : inputs(width))
      for (const Shape& shape : kShapes) {
        const std::vector<std::byte> expected = reference_encode(shape, input.values);
        for (const Engine& engine : all) {
          CAPTURE(engine.isa, static_cast<int>(shape.format), width, input.name);
          CHECK(encode(*engine.backend, shape, row_of(input.values)) == expected);
        }
      }
}

TEST_CASE("wire formats keep their error bounds", "[wire]") {
  const auto backend = test_backend("", 1);
  for (const Shape& shape : kShapes)
    for (const std::size_t width : kWidths)
      for (Input& input : inputs(width)) {
        const std::vector<float>& x = input.values;
        const std::vector<float> scales = shape.group ? encoded_scales(shape, x) : std::vector<float>{};
        const std::vector<float> y = decode(*backend, shape, encode(*backend, shape, row_of(input.values)), width);
        std::size_t beyond = 0;
        for (std::size_t i = 0; i < width; ++i) {
          const double error = std::fabs(double{y[i]} - x[i]);
          if (!(error <= bound(shape, x[i], shape.group ? scales[i / shape.group] : 0.0F))) ++beyond;
        }
        CAPTURE(static_cast<int>(shape.format), width, input.name);
        CHECK(beyond == 0);
      }
}

TEST_CASE("what is not finite decodes to NaN throughout its group, and nowhere else", "[wire]") {
  Random random(3);
  const std::vector<Engine> all = engines({1});
  for (const Shape& shape : kShapes)
    for (const std::size_t width : {1, 40, 129, 576, 1100})
      for (const float broken : {nan(), -nan(), infinity(), -infinity()})
        for (const std::size_t at : {std::size_t{0}, width / 2, width - 1}) {
          std::vector<float> x = normals(random, width);
          x[at] = broken;
          const std::vector<std::byte> expected = reference_encode(shape, x);
          for (const Engine& engine : all) {
            const std::vector<std::byte> bytes = encode(*engine.backend, shape, row_of(x));
            CAPTURE(engine.isa, static_cast<int>(shape.format), width, broken, at);
            CHECK(bytes == expected);
            const std::vector<float> y = decode(*engine.backend, shape, bytes, width);
            std::size_t wrong = 0;
            for (std::size_t i = 0; i < width; ++i) {
              const bool hit = shape.group ? i / shape.group == at / shape.group : i == at;
              if (hit && !shape.group)
                wrong += std::isnan(broken) ? !std::isnan(y[i]) : y[i] != broken;  // fp32 and bf16 carry it as it is
              else
                wrong += std::isnan(y[i]) != hit;
            }
            CHECK(wrong == 0);
          }
        }
}

TEST_CASE("decode_sum adds the parts in their order, then to what was there", "[wire]") {
  constexpr std::size_t kRows = 7, kGap = 5;
  const auto reference = test_backend("ref", 1);
  const std::vector<Engine> all = engines({1, 3});
  for (const Shape& shape : kShapes)
    for (const std::size_t width : {1, 17, 100, 1100}) {
      Random random(width);
      const std::size_t stride = width + kGap, row_bytes = wire_row_bytes(shape.format, width);
      const std::vector<float> before = normals(random, kRows * stride);
      std::vector<std::vector<std::byte>> encoded;
      std::vector<std::span<const std::byte>> parts;
      std::vector<float> sum(kRows * width);
      for (const std::size_t count : {1, 2, 3, 4}) {
        OwnedRows x(kRows, width, stride);
        x.data = normals(random, x.data.size(), count == 2 ? 100.0F : 1.0F);
        x.rows.data = x.data.data();
        encoded.push_back(encode(*reference, shape, x.rows));
        parts.assign(encoded.begin(), encoded.end());
        for (std::size_t r = 0; r < kRows; ++r) {
          const auto from = encoded.back().begin() + static_cast<std::ptrdiff_t>(r * row_bytes);
          const std::vector<float> value = decode(*reference, shape, {from, from + static_cast<std::ptrdiff_t>(row_bytes)}, width);
          for (std::size_t i = 0; i < width; ++i) sum[r * width + i] = count == 1 ? value[i] : sum[r * width + i] + value[i];
        }
        for (const Engine& engine : all) {
          OwnedRows stored(kRows, width, stride), added(kRows, width, stride);
          std::fill(stored.data.begin(), stored.data.end(), 7.0F);
          std::copy(before.begin(), before.end(), added.data.begin());
          engine.backend->decode_sum(parts, shape.format, stored.rows, Output::kStore);
          engine.backend->decode_sum(parts, shape.format, added.rows, Output::kAdd);
          std::size_t wrong = 0;
          for (std::size_t r = 0; r < kRows; ++r)
            for (std::size_t i = 0; i < stride; ++i) {
              const std::size_t at = r * stride + i;
              const float value = i < width ? sum[r * width + i] : 0.0F;
              wrong += stored.data[at] != (i < width ? value : 7.0F);
              wrong += added.data[at] != (i < width ? before[at] + value : before[at]);
            }
          CAPTURE(engine.isa, engine.threads, static_cast<int>(shape.format), width, count);
          CHECK(wrong == 0);
        }
      }
    }
}

TEST_CASE("what the bytes fail to hold travels with the next rows", "[wire]") {
  constexpr std::size_t kRows = 7, kGap = 5, kRounds = 3;
  const auto reference = test_backend("ref", 1);
  const std::vector<Engine> all = engines({1, 3});
  for (const Shape& shape : kShapes)
    for (const std::size_t width : {1, 17, 100, 576, 1100})
      for (const Engine& engine : all) {
        Random random(width);
        const std::size_t stride = width + kGap, row_bytes = wire_row_bytes(shape.format, width);
        std::vector<float> lost(kRows * width);
        OwnedRows loss(kRows, width, stride);
        std::fill(loss.data.begin(), loss.data.end(), 0.0F);
        std::size_t wrong = 0;
        for (std::size_t round = 0; round < kRounds; ++round) {
          OwnedRows x(kRows, width, stride);
          x.data = normals(random, x.data.size(), round == 1 ? 100.0F : 1.0F);
          x.rows.data = x.data.data();
          std::vector<float> sum = x.data;
          for (std::size_t r = 0; r < kRows; ++r)
            for (std::size_t i = 0; i < width; ++i) sum[r * stride + i] += lost[r * width + i];
          std::vector<std::byte> bytes(kRows * row_bytes);
          engine.backend->encode_carrying(x.rows, loss.rows, shape.format, bytes);
          wrong += x.data != sum;
          for (std::size_t r = 0; r < kRows; ++r) {
            const std::vector<float> row(sum.begin() + static_cast<std::ptrdiff_t>(r * stride),
                                         sum.begin() + static_cast<std::ptrdiff_t>(r * stride + width));
            const auto from = bytes.begin() + static_cast<std::ptrdiff_t>(r * row_bytes);
            const std::vector<std::byte> encoded(from, from + static_cast<std::ptrdiff_t>(row_bytes));
            wrong += encoded != reference_encode(shape, row);
            const std::vector<float> value = decode(*reference, shape, encoded, width);
            for (std::size_t i = 0; i < width; ++i) {
              lost[r * width + i] = row[i] - value[i];
              wrong += loss.data[r * stride + i] != lost[r * width + i];
            }
            for (std::size_t i = width; i < stride; ++i) wrong += loss.data[r * stride + i] != 0;
          }
        }
        CAPTURE(engine.isa, engine.threads, static_cast<int>(shape.format), width);
        CHECK(wrong == 0);
      }
}

TEST_CASE("wire rows of a wrong size are refused", "[wire]") {
  const auto backend = test_backend("", 1);
  OwnedRows x(2, 33);
  for (const Shape& shape : kShapes) {
    std::vector<std::byte> bytes(2 * wire_row_bytes(shape.format, 33) + 8);
    const std::span<std::byte> right = std::span(bytes).first(bytes.size() - 8);
    CHECK_NOTHROW(backend->encode(x.rows, shape.format, right));
    CHECK_THROWS_AS(backend->encode(x.rows, shape.format, right.first(right.size() - 4)), std::invalid_argument);
    CHECK_THROWS_AS(backend->encode(x.rows, shape.format, std::span(bytes).subspan(1, right.size())), std::invalid_argument);
    OwnedRows loss(2, 33), narrow(2, 32);
    CHECK_NOTHROW(backend->encode_carrying(x.rows, loss.rows, shape.format, right));
    CHECK_THROWS_AS(backend->encode_carrying(x.rows, loss.rows, shape.format, right.first(right.size() - 4)), std::invalid_argument);
    CHECK_THROWS_AS(backend->encode_carrying(x.rows, narrow.rows, shape.format, right), std::invalid_argument);
    const std::span<const std::byte> parts[] = {right, right.first(right.size() - 4)};
    CHECK_THROWS_AS(backend->decode_sum(parts, shape.format, x.rows, Output::kStore), std::invalid_argument);
    CHECK_THROWS_AS(backend->decode_sum({}, shape.format, x.rows, Output::kStore), std::invalid_argument);
  }
}

TEST_CASE("a bias is added to every row", "[wire]") {
  for (const Engine& engine : engines({1, 3})) {
    Random random(9);
    OwnedRows x(40, 300, 304);
    x.data = normals(random, x.data.size());
    x.rows.data = x.data.data();
    const std::vector<float> before = x.data, bias = normals(random, 300);
    engine.backend->add_bias(x.rows, bias.data());
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < before.size(); ++i) wrong += x.data[i] != (i % 304 < 300 ? before[i] + bias[i % 304] : before[i]);
    CAPTURE(engine.isa, engine.threads);
    CHECK(wrong == 0);
  }
}
