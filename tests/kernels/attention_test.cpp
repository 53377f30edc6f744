// Attention and the KV cache: chunked = decode = token by token, alone or in a batch, on any level and number of threads, bit for bit;
// garbage in unwritten slots changes nothing; results are right against double.
#include "tests/kernels/support.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

using namespace troupe::kernels;
using namespace troupe::kernels::testing;

namespace {

constexpr KvFormat kFormats[] = {KvFormat::kInt8, KvFormat::kFp16, KvFormat::kFp32};

struct Shape {
  std::size_t q_heads, kv_heads, dim;
  std::size_t width() const { return (q_heads + 2 * kv_heads) * dim; }
};

/// One sequence: rows of q, k, v before rotation, and a block table in random order.
struct Sequence {
  std::vector<float> rows;
  std::vector<std::uint32_t> blocks;
};

struct World {
  Shape shape;
  KvFormat format;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<KvCache> kv;
  RopeTable rope;

  World(const Shape& s, KvFormat f, const std::string& isa, std::size_t threads, std::size_t blocks)
      : shape(s), format(f), backend(test_backend(isa, threads)), rope(make_rope_table(s.dim, 10000.0, 1024)) {
    kv = backend->make_kv_cache({2, s.kv_heads, s.dim, blocks, f});
    for (std::uint32_t b = 0; b < blocks; ++b) kv->poison_block(b);
  }

  struct Part {
    const Sequence* sequence;
    std::size_t position, count;
  };
  /// Runs one batch of parts and returns the output rows, part after part.
  std::vector<float> run(const std::vector<Part>& parts) {
    std::size_t count = 0;
    for (const Part& p : parts) count += p.count;
    OwnedRows qkv(count, shape.width()), out(count, shape.q_heads * shape.dim);
    std::vector<SequenceRows> sequences;
    std::size_t row = 0;
    for (const Part& p : parts) {
      std::copy_n(p.sequence->rows.begin() + static_cast<std::ptrdiff_t>(p.position * shape.width()), p.count * shape.width(),
                  qkv.rows.row(row));
      sequences.push_back({row, p.count, static_cast<std::uint32_t>(p.position), p.sequence->blocks.data()});
      row += p.count;
    }
    backend->rope_append(qkv.rows, shape.q_heads, sequences, rope, *kv, 1);
    backend->attention(qkv.rows, shape.q_heads, sequences, *kv, 1, out.rows);
    return out.data;
  }
  /// The whole sequence in chunks of at most `most` rows.
  std::vector<float> in_chunks(const Sequence& s, std::size_t length, std::size_t most, Random& random) {
    std::vector<float> all;
    for (std::size_t at = 0; at < length;) {
      const std::size_t count = std::min(length - at, random.between(1, most));
      const std::vector<float> some = run({{&s, at, count}});
      all.insert(all.end(), some.begin(), some.end());
      at += count;
    }
    return all;
  }
};

Sequence random_sequence(Random& random, const Shape& shape, std::size_t length, std::size_t first_block = 0) {
  Sequence s{normals(random, length * shape.width()), {}};
  s.blocks.resize((length + 31) / 32);
  std::iota(s.blocks.begin(), s.blocks.end(), static_cast<std::uint32_t>(first_block));
  for (std::size_t i = s.blocks.size(); i > 1; --i) std::swap(s.blocks[i - 1], s.blocks[random.below(i)]);
  return s;
}

/// Root mean square error against attention in double, relative to the result.
double error_against_double(const World& world, const Sequence& s, std::size_t length, const std::vector<float>& out) {
  const Shape& shape = world.shape;
  const std::size_t dim = shape.dim, group = shape.q_heads / shape.kv_heads;
  const auto rotated = [&](std::size_t position, std::size_t head, std::size_t d) {
    const float* x = &s.rows[position * shape.width() + head * dim];
    const double angle = static_cast<double>(position) * std::pow(10000.0, -2.0 * static_cast<double>(d / 2) / static_cast<double>(dim));
    const double x0 = x[d / 2 * 2], x1 = x[d / 2 * 2 + 1];
    return d % 2 ? x0 * std::sin(angle) + x1 * std::cos(angle) : x0 * std::cos(angle) - x1 * std::sin(angle);
  };
  std::vector<double> keys(length * shape.kv_heads * dim);
  for (std::size_t p = 0; p < length; ++p)
    for (std::size_t h = 0; h < shape.kv_heads; ++h)
      for (std::size_t d = 0; d < dim; ++d) keys[(p * shape.kv_heads + h) * dim + d] = rotated(p, shape.q_heads + h, d);
  double error = 0, size = 0;
  for (std::size_t i = 0; i < length; i += 1 + length / 16)
    for (std::size_t h = 0; h < shape.q_heads; ++h) {
      std::vector<double> q(dim), p(i + 1), o(dim);
      for (std::size_t d = 0; d < dim; ++d) q[d] = rotated(i, h, d);
      double sum = 0;
      for (std::size_t t = 0; t <= i; ++t) {
        double dot = 0;
        for (std::size_t d = 0; d < dim; ++d) dot += q[d] * keys[(t * shape.kv_heads + h / group) * dim + d];
        p[t] = std::exp(dot / std::sqrt(static_cast<double>(dim)));
        sum += p[t];
      }
      for (std::size_t t = 0; t <= i; ++t)
        for (std::size_t d = 0; d < dim; ++d)
          o[d] += p[t] / sum * s.rows[t * shape.width() + (shape.q_heads + shape.kv_heads + h / group) * dim + d];
      for (std::size_t d = 0; d < dim; ++d) {
        const double difference = o[d] - out[(i * shape.q_heads + h) * dim + d];
        error += difference * difference;
        size += o[d] * o[d];
      }
    }
  return std::sqrt(error / size);
}

}  // namespace

TEST_CASE("attention is the same token by token, in chunks and on every level") {
  Random random(31);
  const Shape shapes[] = {{9, 3, 64}, {4, 4, 64}, {8, 2, 128}, {6, 1, 48}, {5, 1, 16}};
  for (const Shape& shape : shapes)
    for (const KvFormat format : kFormats)
      for (const std::size_t length : {1, 31, 32, 33, 100}) {
        if (shape.dim == 128 ? length > 33 : shape.q_heads == 4 && length != 100) continue;  // the scalar level is slow
        if (is_sanitized() && shape.q_heads > 6 && length != 33) continue;                   // smaller shapes have the other lengths
        const Sequence s = random_sequence(random, shape, length);
        World reference(shape, format, "ref", 1, s.blocks.size());
        const std::vector<float> expected = reference.in_chunks(s, length, 1, random);
        for (const std::string& isa : cpu_isa_levels())
          for (const std::size_t most : {1, 7, 40, 512}) {
            if (isa == "ref" && (most != 40 || length > 33)) continue;
            World world(shape, format, isa, random.between(1, 4), s.blocks.size());
            CAPTURE(shape.dim, shape.q_heads, static_cast<int>(format), length, isa, most);
            CHECK(same_bits(world.in_chunks(s, length, most, random), expected));
          }
      }
}

TEST_CASE("a long sequence, whole or in chunks") {
  Random random(32);
  const Shape shape{9, 3, 64};
  const std::size_t length = 700;
  const Sequence s = random_sequence(random, shape, length);
  for (const KvFormat format : {KvFormat::kInt8, KvFormat::kFp32}) {
    World whole(shape, format, cpu_isa_levels().front(), 1, s.blocks.size());
    const std::vector<float> expected = whole.run({{&s, 0, length}});
    for (const std::size_t most : {1, 100}) {
      World world(shape, format, cpu_isa_levels().front(), 3, s.blocks.size());
      CHECK(same_bits(world.in_chunks(s, length, most, random), expected));
    }
  }
}

TEST_CASE("a long row is the same when threads share it by tiles") {
  Random random(38);
  const std::size_t length = 2100;  // in the second shape, the parts fill several rounds
  for (const Shape& shape : {Shape{3, 1, 16}, Shape{36, 3, 64}})
    for (const KvFormat format : kFormats)
      for (const std::string& isa : cpu_isa_levels()) {
        if (isa == "ref" && shape.dim > 16) continue;  // slow
        Sequence s = random_sequence(random, shape, 32);
        s.blocks.resize((length + 31) / 32);
        for (std::size_t i = 0; i < s.blocks.size(); ++i) s.blocks[i] = static_cast<std::uint32_t>(i * 7 % s.blocks.size());
        std::vector<float> expected;
        for (const std::size_t threads : {1, 2, 5}) {
          World world(shape, format, isa, threads, s.blocks.size());
          world.rope = make_rope_table(shape.dim, 10000.0, length + 1);
          for (std::size_t block = 0; block * 32 < length; ++block) {
            OwnedRows qkv(32, shape.width());
            qkv.data = s.rows;
            for (std::size_t i = 0; i < qkv.data.size(); i += 1 + block % 7) qkv.data[i] += 0.25F * static_cast<float>(block % 5);
            const SequenceRows rows{0, std::min<std::size_t>(32, length - block * 32), static_cast<std::uint32_t>(block * 32),
                                    s.blocks.data()};
            world.backend->rope_append(Rows{qkv.data.data(), 32, shape.width(), shape.width()}, shape.q_heads, {&rows, 1}, world.rope,
                                       *world.kv, 1);
          }
          OwnedRows qkv(2, shape.width()), out(2, shape.q_heads * shape.dim);
          std::copy_n(s.rows.begin(), qkv.data.size(), qkv.data.begin());
          const SequenceRows rows[] = {{0, 1, length - 1, s.blocks.data()}, {1, 1, 40, s.blocks.data()}};
          world.backend->attention(qkv.rows, shape.q_heads, rows, *world.kv, 1, out.rows);
          if (expected.empty()) expected = out.data;
          CAPTURE(shape.q_heads, static_cast<int>(format), isa, threads);
          CHECK(same_bits(out.data, expected));
        }
      }
}

TEST_CASE("attention does not depend on what else is in the batch") {
  Random random(33);
  const Shape shape{6, 2, 64};
  for (const KvFormat format : kFormats)
    for (const std::string& isa : cpu_isa_levels()) {
      std::vector<Sequence> sequences;
      std::vector<std::size_t> lengths;
      std::size_t blocks = 0;
      for (int i = 0; i < 6; ++i) {
        lengths.push_back(random.between(2, 80));
        sequences.push_back(random_sequence(random, shape, lengths.back(), blocks));
        blocks += sequences.back().blocks.size();
      }
      World alone(shape, format, isa, 1, blocks), together(shape, format, isa, 3, blocks);
      std::vector<float> expected;
      std::vector<World::Part> first, last;  // odd ones decode their last token, even ones prefill all at once
      for (std::size_t i = 0; i < sequences.size(); ++i) {
        const std::size_t n = lengths[i];
        std::vector<float> out;
        if (i % 2) {
          alone.run({{&sequences[i], 0, n - 1}});
          out = alone.run({{&sequences[i], n - 1, 1}});
          first.push_back({&sequences[i], 0, n - 1});
          last.push_back({&sequences[i], n - 1, 1});
        } else {
          out = alone.run({{&sequences[i], 0, n}});
          last.push_back({&sequences[i], 0, n});
        }
        expected.insert(expected.end(), out.begin(), out.end());
      }
      together.run(first);
      CAPTURE(static_cast<int>(format), isa);
      CHECK(same_bits(together.run(last), expected));
    }
}

TEST_CASE("a copied tail goes on like the original") {
  Random random(34);
  const Shape shape{4, 2, 32};
  const std::size_t length = 70;
  for (const KvFormat format : kFormats)
    for (std::size_t fork = 32; fork < 64; fork += format == KvFormat::kInt8 ? 1 : 9) {
      const Sequence s = random_sequence(random, shape, length);
      World world(shape, format, cpu_isa_levels().front(), 1, 8);
      world.run({{&s, 0, length}});
      Sequence branch = s;
      branch.blocks = {s.blocks[0], 6, 7};
      world.kv->copy_block(s.blocks[1], 6, fork - 32);
      const std::vector<float> expected = world.run({{&s, fork, length - fork}});
      CAPTURE(static_cast<int>(format), fork);
      CHECK(same_bits(world.run({{&branch, fork, length - fork}}), expected));
    }
}

TEST_CASE("a copy touches only the slots that it names") {
  Random random(35);
  const Shape shape{2, 1, 16};
  for (const KvFormat format : kFormats) {
    World world(shape, format, "ref", 1, 4);
    const Sequence a = random_sequence(random, shape, 32), b{normals(random, 32 * shape.width()), {1}};
    world.run({{&a, 0, 32}});
    const std::vector<float> expected = world.run({{&b, 0, 32}});
    for (const std::size_t tokens : {0, 1, 3, 4, 29, 31}) {
      world.kv->copy_block(a.blocks[0], 1, tokens);
      // b's first slots are a's now; writing them again must restore the block, since the others were left alone.
      world.run({{&b, 0, std::max<std::size_t>(tokens, 1)}});
      const std::vector<float> again = world.run({{&b, 31, 1}});
      CAPTURE(static_cast<int>(format), tokens);
      CHECK(same_bits(again.data(), &expected[31 * 2 * 16], 2 * 16));
    }
    CHECK_THROWS_AS(world.kv->copy_block(0, 4, 1), std::invalid_argument);
    CHECK_THROWS_AS(world.kv->copy_block(0, 1, 33), std::invalid_argument);
  }
}

TEST_CASE("attention is accurate") {
  Random random(36);
  for (const Shape& shape : {Shape{6, 2, 64}, Shape{2, 1, 128}, Shape{3, 1, 48}}) {
    const std::size_t length = 96;
    const Sequence s = random_sequence(random, shape, length);
    const double bounds[] = {0.02, 2e-3, 5e-6};
    for (std::size_t f = 0; f < 3; ++f) {
      World world(shape, kFormats[f], "ref", 1, s.blocks.size());
      CAPTURE(shape.dim, f);
      CHECK(error_against_double(world, s, length, world.run({{&s, 0, length}})) < bounds[f]);
    }
  }
}

TEST_CASE("many query heads share one kv head") {
  Random random(37);
  const Shape shape{70, 1, 16};  // more than one call takes
  const Sequence s = random_sequence(random, shape, 40);
  World reference(shape, KvFormat::kInt8, "ref", 1, 2), world(shape, KvFormat::kInt8, cpu_isa_levels().front(), 2, 2);
  const std::vector<float> expected = reference.run({{&s, 0, 40}});
  CHECK(same_bits(world.in_chunks(s, 40, 3, random), expected));
  CHECK(error_against_double(reference, s, 40, expected) < 0.03);
}

TEST_CASE("wrong shapes of caches and batches are refused") {
  const auto backend = test_backend("ref", 1);
  CHECK_THROWS_AS(backend->make_kv_cache({1, 1, 24, 1, KvFormat::kInt8}), std::invalid_argument);
  CHECK_THROWS_AS(backend->make_kv_cache({1, 1, 528, 1, KvFormat::kInt8}), std::invalid_argument);
  CHECK_THROWS_AS(backend->make_kv_cache({1, 0, 64, 1, KvFormat::kInt8}), std::invalid_argument);
  const auto kv = backend->make_kv_cache({1, 1, 16, 2, KvFormat::kInt8});
  CHECK(kv->bytes() == kv_block_bytes({1, 1, 16, 2, KvFormat::kInt8}) * 2);
  CHECK(kv_block_bytes({30, 3, 64, 1, KvFormat::kInt8}) == 30 * 3 * (64 * 64 + 256));
  const RopeTable rope = make_rope_table(16, 10000, 64);
  OwnedRows qkv(1, 48), out(1, 16);
  std::uint32_t block = 0;
  SequenceRows s{0, 1, 0, &block};
  CHECK_NOTHROW(backend->rope_append(qkv.rows, 1, {&s, 1}, rope, *kv, 0));
  CHECK_THROWS_AS(backend->rope_append(qkv.rows, 1, {&s, 1}, rope, *kv, 1), std::invalid_argument);
  CHECK_THROWS_AS(backend->attention(qkv.rows, 2, {&s, 1}, *kv, 0, out.rows), std::invalid_argument);
  block = 2;
  CHECK_THROWS_AS(backend->rope_append(qkv.rows, 1, {&s, 1}, rope, *kv, 0), std::invalid_argument);
  CHECK_THROWS_AS(backend->attention(qkv.rows, 1, {&s, 1}, *kv, 0, out.rows), std::invalid_argument);
  block = 0;
  s.position = 64;
  CHECK_THROWS_AS(backend->rope_append(qkv.rows, 1, {&s, 1}, rope, *kv, 0), std::invalid_argument);
}
