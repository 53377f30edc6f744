// Sequences that begin with the same blocks: who shares what with whom, against a look at every pair; plans that leave out no row; and
// results that are the same bits as those of each sequence alone, over random trees of tables.
#include "kernels/cpu/attention_plan.h"
#include "tests/kernels/support.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <numeric>
#include <set>

using namespace troupe::kernels;
using namespace troupe::kernels::testing;

namespace {

constexpr std::size_t kTokens = cpu::kBlockTokens;

/// Block tables that branch at random: each goes on from some blocks of an earlier one, or begins anew. `chance` of 4 to go on.
struct Forest {
  std::vector<std::vector<std::uint32_t>> tables;
  std::uint32_t blocks = 0;

  Forest(Random& random, std::size_t count, std::size_t most, std::size_t chance) {
    for (std::size_t i = 0; i < count; ++i) {
      std::vector<std::uint32_t> table;
      if (i > 0 && random.below(4) < chance) {
        const auto& parent = tables[random.below(i)];
        const std::size_t kept = random.below(4) == 0 ? parent.size() : random.below(parent.size() + 1);
        table.assign(parent.begin(), parent.begin() + static_cast<std::ptrdiff_t>(kept));
      }
      const std::size_t length = table.size() + random.between(table.empty() ? 1 : 0, most);
      while (table.size() < length) table.push_back(blocks++);
      tables.push_back(std::move(table));
    }
  }
};

/// Rows that end in a table's last block: decodes mostly, some with a few rows more, now and then a chunk of many.
std::vector<SequenceRows> random_batch(Random& random, const Forest& forest, std::size_t* rows) {
  std::vector<SequenceRows> batch;
  *rows = 0;
  for (const auto& table : forest.tables) {
    const std::size_t length = table.size() * kTokens - (random.below(3) == 0 ? 0 : random.below(kTokens));
    const std::size_t wanted = random.below(8) == 0 ? random.between(20, 70) : random.below(3) == 0 ? random.between(0, 5) : 1;
    const std::size_t count = std::min(wanted, length);
    batch.push_back({*rows, count, static_cast<std::uint32_t>(length - count), table.data()});
    *rows += count;
  }
  return batch;
}

std::size_t common_by_hand(const cpu::PrefixMember& a, const cpu::PrefixMember& b) {
  std::size_t n = 0;
  while (n < std::min(a.whole, b.whole) && a.sequence->blocks[n] == b.sequence->blocks[n]) ++n;
  return n;
}

}  // namespace

TEST_CASE("groups of sequences that begin alike are those that a look at every pair finds") {
  Random random(71);
  std::size_t members_seen = 0, nested = 0;
  for (int round = 0; round < 300; ++round) {
    const Forest forest(random, random.between(1, 24), random.between(1, 30), random.below(5));
    std::size_t rows = 0;
    const std::vector<SequenceRows> batch = random_batch(random, forest, &rows);
    std::vector<const SequenceRows*> candidates;
    for (const SequenceRows& s : batch)
      if (s.rows > 0) candidates.push_back(&s);
    const std::vector<cpu::PrefixMember> members = cpu::shared_prefixes(candidates);
    members_seen += members.size();
    std::vector<std::size_t> group(members.size());
    for (std::size_t i = 0; i < members.size(); ++i) {
      CHECK(members[i].whole == (members[i].sequence->position + 1) / kTokens);
      group[i] = i == 0 ? 0 : group[i - 1] + (members[i].common == 0);
      CHECK(((i > 0 && group[i] == group[i - 1]) || (i + 1 < members.size() && members[i + 1].common > 0)));  // none is alone
      if (i > 1 && members[i].common > 0 && members[i - 1].common > 0) nested += members[i].common != members[i - 1].common;
      std::size_t least = members[i].whole;
      for (std::size_t k = i + 1; k < members.size() && (least = std::min(least, members[k].common)) > 0; ++k)
        CHECK(least == common_by_hand(members[i], members[k]));
    }
    // Who has a partner with much in common is in a group.
    for (const SequenceRows* s : candidates) {
      const cpu::PrefixMember own{s, (s->position + 1) / kTokens, 0};
      std::size_t best = 0, shortest = own.whole;
      for (const SequenceRows* other : candidates)
        if (other != s) {
          const cpu::PrefixMember its{other, (other->position + 1) / kTokens, 0};
          best = std::max(best, common_by_hand(own, its));
          shortest = std::max(shortest, its.whole);
        }
      const bool found = std::any_of(members.begin(), members.end(), [&](const cpu::PrefixMember& m) { return m.sequence == s; });
      if (best < cpu::kTilesToShare) CHECK_FALSE(found);
      if (best >= cpu::kTilesToShare && best * 8 >= shortest) CHECK(found);
    }
  }
  CHECK(members_seen > 500);
  CHECK(nested > 100);
}

TEST_CASE("every row, kv head and query head is in one piece of a plan") {
  Random random(72);
  std::size_t shared = 0;
  for (int round = 0; round < 300; ++round) {
    const Forest forest(random, random.between(1, 40), random.between(1, 30), random.below(5));
    std::size_t rows = 0;
    const std::vector<SequenceRows> batch = random_batch(random, forest, &rows);
    const std::size_t group = random.below(20) == 0 ? 70 : random.between(1, 9), kv_heads = random.between(1, 9);
    const cpu::AttentionPlan plan = cpu::plan_attention(batch, group, kv_heads, random.between(1, 9));
    std::vector<int> times(rows * kv_heads * group);
    const auto mark = [&](const cpu::AttentionPiece& piece) {
      REQUIRE(piece.rows() <= static_cast<std::size_t>(cpu::kMaxAttentionRows));
      for (std::size_t h = 0; h < piece.heads; ++h)
        for (std::size_t r = 0; r < piece.rows(); ++r) ++times.at(piece.batch_row(r) * kv_heads * group + piece.q_head(h, r, group));
    };
    for (const cpu::AttentionPiece& piece : plan.pieces) mark(piece);
    for (const cpu::AttentionPiece& piece : plan.split) mark(piece);
    for (const cpu::SharedPiece& piece : plan.shared) {
      CHECK(piece.members.size() > 1);
      std::size_t sum = 0;
      for (const cpu::PrefixMember& member : piece.members) {
        mark({member.sequence, 0, member.sequence->rows, piece.head, piece.heads, 0, group});
        sum += member.sequence->rows * group;
      }
      CHECK(piece.rows == sum);
      CHECK(sum <= static_cast<std::size_t>(cpu::kMaxAttentionRows));
      for (std::size_t i = 1; i < piece.members.size(); ++i) CHECK(piece.members[i].common >= cpu::kTilesToShare);
    }
    CHECK(std::count(times.begin(), times.end(), 1) == static_cast<std::ptrdiff_t>(times.size()));
    shared += plan.shared.size();
  }
  CHECK(shared > 100);
}

TEST_CASE("no thread gets more than its share because sequences begin alike") {
  const std::vector<std::uint32_t> table(128, 7);
  for (const std::size_t count : {2, 3, 4, 5, 16, 17, 33})
    for (const std::size_t kv_heads : {1, 3, 8})
      for (const std::size_t threads : {1, 2, 8, 64}) {
        std::vector<SequenceRows> batch;
        for (std::size_t i = 0; i < count; ++i) batch.push_back({i, 1, 4095, table.data()});
        const cpu::AttentionPlan plan = cpu::plan_attention(batch, 3, kv_heads, threads);
        CAPTURE(count, kv_heads, threads);
        if (threads == 1) CHECK(plan.shared.size() == (count * 3 + 63) / 64);
        if (threads == 2 && count >= 4) CHECK(plan.pieces.empty());
        // Pieces are of equal length up to a sequence, so what one thread gets too much is at most that.
        for (const cpu::SharedPiece& piece : plan.shared)
          CHECK(piece.members.size() * piece.heads * threads <= count * kv_heads + threads * piece.heads);
      }
}

namespace {

struct Heads {
  std::size_t q, kv, dim;
  std::size_t width() const { return (q + 2 * kv) * dim; }
};

/// A layer of cache whose blocks all hold values, but for the slots behind the last position of a table's last block. Any level reads it.
std::unique_ptr<KvCache> filled_cache(const Heads& heads, KvFormat format, const Forest& forest, const std::vector<SequenceRows>& batch) {
  const auto backend = test_backend("", 1);
  auto kv = backend->make_kv_cache({1, heads.kv, heads.dim, forest.blocks, format});
  std::map<std::uint32_t, std::size_t> slots;
  for (const SequenceRows& s : batch)
    for (std::size_t b = 0, length = s.position + s.rows; b * kTokens < length; ++b)
      slots[s.blocks[b]] = std::max(slots[s.blocks[b]], std::min(kTokens, length - b * kTokens));
  const RopeTable rope = make_rope_table(heads.dim, 10000.0, kTokens);
  OwnedRows rows(kTokens, heads.width());
  for (std::uint32_t block = 0; block < forest.blocks; ++block) {
    kv->poison_block(block);
    Random random(block + 1);
    for (float& x : rows.data) x = 2 * random.uniform() - 1;
    const SequenceRows all{0, slots[block], 0, &block};
    backend->rope_append(rows.rows, heads.q, {&all, 1}, rope, *kv, 0);
  }
  return kv;
}

}  // namespace

TEST_CASE("sequences that begin with the same blocks get the same bits as alone") {
  Random random(73);
  std::size_t shared = 0;
  for (const Heads& heads : {Heads{9, 3, 64}, Heads{4, 4, 16}, Heads{8, 1, 48}, Heads{6, 2, 128}})
    for (const KvFormat format : kAllKvFormats)
      for (const std::size_t chance : {0, 2, 3, 4}) {
        const Forest forest(random, random.between(2, 12), random.between(3, 8), chance);
        std::size_t rows = 0;
        const std::vector<SequenceRows> batch = random_batch(random, forest, &rows);
        const auto kv = filled_cache(heads, format, forest, batch);
        OwnedRows qkv(rows, heads.width()), alone(rows, heads.q * heads.dim);
        for (float& x : qkv.data) x = 2 * random.uniform() - 1;
        const auto backend = test_backend("", 1);
        for (const SequenceRows& s : batch) backend->attention(qkv.rows, heads.q, {&s, 1}, *kv, 0, alone.rows);
        for (const std::string& isa : cpu_isa_levels())
          for (const std::size_t threads : {1, 3}) {
            if (isa == "ref" && (threads != 3 || heads.dim != 16)) continue;  // slow
            OwnedRows together(rows, heads.q * heads.dim);
            test_backend(isa, threads)->attention(qkv.rows, heads.q, batch, *kv, 0, together.rows);
            CAPTURE(heads.dim, static_cast<int>(format), chance, isa, threads);
            CHECK(same_bits(together.data, alone.data));
            shared += cpu::plan_attention(batch, heads.q / heads.kv, heads.kv, threads).shared.size();
          }
      }
  CHECK(shared > 50);
}
