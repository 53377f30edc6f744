// Blocks that travel: read from one cache and written to another one they are the same to attention, whatever the level that computed
// them; nothing else changes; the name of their layout tells apart all that must not be mixed.
#include "tests/kernels/support.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <set>

namespace troupe::kernels {
namespace {

using namespace testing;

using Bytes = std::vector<std::byte>;

constexpr std::size_t kQHeads = 4;

KvShape shape_of(KvFormat format, std::size_t dim = 32, std::size_t blocks = 7) { return {3, 2, dim, blocks, format, false}; }
std::size_t row_width(const KvShape& shape) { return (kQHeads + 2 * shape.kv_heads) * shape.head_dim; }

Bytes read(const KvCache& cache, std::uint32_t block) {
  Bytes bytes(cache.block_bytes());
  cache.read_block(block, bytes);
  return bytes;
}
std::vector<Bytes> read_all(const KvCache& cache) {
  std::vector<Bytes> all;
  for (std::uint32_t block = 0; block < cache.shape().blocks; ++block) all.push_back(read(cache, block));
  return all;
}

/// 64 positions of random rows in blocks 5 and 2; what attention makes of them, layer after layer.
struct Filled {
  Filled(const std::string& level, const KvShape& shape) : backend(test_backend(level, 1)), kv(backend->make_kv_cache(shape)) {
    for (std::uint32_t block = 0; block < shape.blocks; ++block) kv->poison_block(block);
    Random random(7);
    for (std::size_t layer = 0; layer < shape.layers; ++layer) {
      rows.push_back(normals(random, 64 * row_width(shape)));
      OwnedRows qkv = rows_of(layer);
      const std::vector<std::uint32_t> blocks = {5, 2};
      const SequenceRows sequence{0, 64, 0, blocks.data()};
      backend->rope_append(qkv.rows, kQHeads, {&sequence, 1}, rope, *kv, layer);
    }
    attended = attend(*backend, *kv, {5, 2});
  }
  OwnedRows rows_of(std::size_t layer) const {
    OwnedRows owned(64, row_width(kv->shape()));
    owned.data = rows[layer];
    owned.rows.data = owned.data.data();
    return owned;
  }
  std::vector<float> attend(Backend& by, const KvCache& cache, const std::vector<std::uint32_t>& blocks) const {
    std::vector<float> all;
    for (std::size_t layer = 0; layer < cache.shape().layers; ++layer) {
      const OwnedRows qkv = rows_of(layer), out(64, kQHeads * cache.shape().head_dim);
      const SequenceRows sequence{0, 64, 0, blocks.data()};
      by.attention(qkv.rows, kQHeads, {&sequence, 1}, cache, layer, out.rows);
      all.insert(all.end(), out.data.begin(), out.data.end());
    }
    return all;
  }
  std::unique_ptr<Backend> backend;
  std::unique_ptr<KvCache> kv;
  RopeTable rope = make_rope_table(kv->shape().head_dim, 10000.0, 64);
  std::vector<std::vector<float>> rows;  // by layer, not rotated
  std::vector<float> attended;
};

TEST_CASE("a block that travelled is the same to attention on every level, and nothing else changes") {
  const auto format = GENERATE(from_range(std::begin(kAllKvFormats), std::end(kAllKvFormats)));
  const std::size_t dim = GENERATE(16, 48, 64);
  const Filled source("ref", shape_of(format, dim));
  for (const std::string& level : cpu_isa_levels()) {
    CAPTURE(static_cast<int>(format), dim, level);
    const auto backend = test_backend(level, 2);
    const auto target = backend->make_kv_cache(shape_of(format, dim, 9));
    for (std::uint32_t block = 0; block < 9; ++block) target->poison_block(block);
    REQUIRE(target->block_layout() == source.kv->block_layout());
    std::vector<Bytes> wanted = read_all(*target);
    wanted[8] = read(*source.kv, 5);
    wanted[0] = read(*source.kv, 2);
    CHECK(wanted[8].size() == kv_block_bytes(source.kv->shape()));
    target->write_block(8, wanted[8]);
    target->write_block(0, wanted[0]);
    CHECK(read_all(*target) == wanted);
    CHECK(same_bits(source.attend(*backend, *target, {8, 0}), source.attended));
    // The test sees a wrong block: in another order the same bytes give something else.
    CHECK_FALSE(same_bits(source.attend(*backend, *target, {0, 8}), source.attended));
  }
}

TEST_CASE("every byte of a block travels, slots that were never written too") {
  const auto format = GENERATE(from_range(std::begin(kAllKvFormats), std::end(kAllKvFormats)));
  const auto kv = test_backend("ref", 1)->make_kv_cache(shape_of(format));
  Random random(9);
  Bytes bytes(kv->block_bytes());
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.bits() >> 20);
  kv->write_block(3, bytes);
  CHECK(read(*kv, 3) == bytes);
  kv->copy_block(3, 6, 32);
  CHECK(read(*kv, 6) == bytes);
}

TEST_CASE("blocks that are not there or have other bytes do not travel") {
  const auto kv = test_backend("ref", 1)->make_kv_cache(shape_of(KvFormat::kInt8));
  Bytes bytes(kv->block_bytes() + 1);
  const std::span<std::byte> right(bytes.data(), bytes.size() - 1);
  CHECK_NOTHROW(kv->read_block(6, right));
  CHECK_THROWS_AS(kv->read_block(7, right), std::invalid_argument);
  CHECK_THROWS_AS(kv->write_block(UINT32_MAX, right), std::invalid_argument);
  for (const std::span<std::byte> wrong : {std::span(bytes), right.first(right.size() - 1), right.first(0)}) {
    CHECK_THROWS_AS(kv->read_block(0, wrong), std::invalid_argument);
    CHECK_THROWS_AS(kv->write_block(0, wrong), std::invalid_argument);
  }
}

TEST_CASE("the layout's name differs with all that the bytes depend on, and with nothing else") {
  const auto name = [](const KvShape& shape, const std::string& level = "ref") {
    return test_backend(level, 1)->make_kv_cache(shape)->block_layout();
  };
  const KvShape usual{3, 2, 32, 7, KvFormat::kInt8, false};
  std::set<std::string> names = {name(usual)};
  const auto differs = [&](auto change) {
    KvShape shape = usual;
    change(shape);
    CHECK(names.insert(name(shape)).second);
  };
  differs([](KvShape& s) { s.layers = 4; });
  differs([](KvShape& s) { s.kv_heads = 3; });
  differs([](KvShape& s) { s.head_dim = 48; });
  differs([](KvShape& s) { s.format = KvFormat::kFp16; });
  differs([](KvShape& s) { s.format = KvFormat::kFp32; });
  differs([](KvShape& s) { s.spread_heads = true; });
  for (const std::string& level : cpu_isa_levels()) CHECK(name({3, 2, 32, 99, KvFormat::kInt8, false}, level) == name(usual));
}

/// Whoever changes what a slab's bytes mean breaks this, and raises kSlabRevision with the new numbers: else blocks kept on disk by an
/// older program would be read as something else.
TEST_CASE("the bytes of a block are those of its layout's revision") {
  const auto hash_of = [](KvFormat format, bool spread) {
    KvShape shape = shape_of(format);
    shape.spread_heads = spread;
    const Filled filled("ref", shape);
    CHECK(filled.kv->block_layout().ends_with("revision 1"));
    std::uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a
    for (const std::byte byte : read(*filled.kv, 5)) hash = (hash ^ static_cast<std::uint64_t>(byte)) * 0x100000001b3U;
    return hash;
  };
  CHECK(hash_of(KvFormat::kInt8, false) == 0x98516ee75a0a069f);
  CHECK(hash_of(KvFormat::kInt8, true) == 0x2484174f53b8e18);
  CHECK(hash_of(KvFormat::kFp16, false) == 0x9e1cfec48d6d2737);
  CHECK(hash_of(KvFormat::kFp32, false) == 0xaa3248a5e3a73d48);
}

}  // namespace
}  // namespace troupe::kernels
