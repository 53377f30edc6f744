// Backend::set_poll: long ops call it, on the caller's thread, and no bit of a result depends on it.
#include "tests/kernels/support.h"

#include <catch2/catch.hpp>
#include <numeric>
#include <thread>

using namespace troupe::kernels;
using namespace troupe::kernels::testing;

namespace {

/// Runs the op that make(backend) gives, op(result), without a poll and with one.
template <typename Make>
void check_polled(const std::string& what, std::size_t threads, Activations activations, std::size_t count, std::size_t width, Make make) {
  const auto backend = test_backend("", threads, activations);
  const auto op = make(*backend);
  OwnedRows plain(count, width), polled(count, width);
  op(plain.rows);
  std::size_t calls = 0, elsewhere = 0;
  const auto caller = std::this_thread::get_id();
  backend->set_poll([&] {
    ++calls;
    if (std::this_thread::get_id() != caller) ++elsewhere;
  });
  op(polled.rows);
  CAPTURE(what, threads, count);
  CHECK(calls > 0);
  CHECK(elsewhere == 0);
  CHECK(same_bits(plain.data, polled.data));
  backend->set_poll({});
  const std::size_t before = calls;
  op(polled.rows);
  CHECK(calls == before);
}

}  // namespace

TEST_CASE("long products poll and keep their bits", "[poll]") {
  Random random(40);
  constexpr std::size_t kCols = 1024;
  for (const StorageType type : {StorageType::kQ4_1, StorageType::kBF16})
    for (const std::size_t rows : {1, 5, 70}) {
      const std::size_t outputs = rows < 64 ? 1210 : 610;  // beyond the panels of one piece; of many rows a thread's, too
      const FileMatrix small = random_matrix(random, type, 48, kCols), large = random_matrix(random, type, outputs - 48, kCols);
      const MatrixSource sources[] = {small.source(), large.source()};
      for (const std::size_t threads : {1, 2}) {
        OwnedRows x(rows, kCols);
        x.data = normals(random, x.data.size());
        x.rows.data = x.data.data();
        const std::vector<float> norm = normals(random, kCols);
        check_polled("two terms", threads, Activations::kInt8Group32, rows, outputs, [&](Backend& backend) {
          return [&, weight = backend.pack(sources)](Rows y) { backend.norm_linear_two_terms(x.rows, norm.data(), 1e-5F, *weight, y); };
        });
        check_polled("added", threads, Activations::kFp32, rows, outputs, [&](Backend& backend) {
          return [&, weight = backend.pack(sources)](Rows y) {
            std::fill_n(y.data, y.count * y.stride, 1.0F);
            backend.linear(*weight, x.rows, y, Output::kAdd);
          };
        });
      }
    }
}

TEST_CASE("long rows poll and keep their bits", "[poll]") {
  Random random(41);
  const std::vector<float> x = normals(random, 300 * 700), bias = normals(random, 700);
  check_polled("bias", 2, Activations::kFp32, 300, 700, [&](Backend& backend) {
    return [&](Rows y) {
      std::copy(x.begin(), x.end(), y.data);
      backend.add_bias(y, bias.data());
    };
  });
}

TEST_CASE("long attention polls and keeps its bits", "[poll]") {
  constexpr std::size_t kPositions = 3000, kQHeads = 4, kKvHeads = 2, kDim = 128, kWidth = (kQHeads + 2 * kKvHeads) * kDim;
  Random random(42);
  const std::vector<float> x = normals(random, kPositions * kWidth);
  const RopeTable rope = make_rope_table(kDim, 10000.0, kPositions);
  std::vector<std::uint32_t> blocks((kPositions + 31) / 32), other(blocks.size());
  std::iota(blocks.begin(), blocks.end(), 0U);
  other = blocks;  // shares all but its last block
  other.back() = static_cast<std::uint32_t>(blocks.size());
  for (const std::size_t threads : {1, 2})
    for (const std::size_t rows : {1, 20}) {
      check_polled("attention", threads, Activations::kFp32, 2 * rows, kQHeads * kDim, [&](Backend& backend) {
        return [&](Rows out) {
          const auto kv = backend.make_kv_cache({1, kKvHeads, kDim, blocks.size() + 1, KvFormat::kInt8});
          std::vector<float> all = x;
          const Rows qkv{all.data(), kPositions, kWidth, kWidth};
          const SequenceRows whole{0, kPositions, 0, blocks.data()};
          backend.rope_append(qkv, kQHeads, {&whole, 1}, rope, *kv, 0);
          kv->copy_block(blocks.back(), other.back(), 32);
          const auto position = static_cast<std::uint32_t>(kPositions - rows);
          const SequenceRows two[] = {{0, rows, position, blocks.data()}, {rows, rows, position, other.data()}};
          backend.attention(qkv.slice(0, 2 * rows), kQHeads, two, *kv, 0, out);
        };
      });
    }
}
