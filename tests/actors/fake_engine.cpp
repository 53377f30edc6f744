#include "tests/actors/fake_engine.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

namespace troupe::test {
namespace {

constexpr Hash128 kNumerics{1, 2};
constexpr TokenId kUnwritten = 0xdeadbeef;

void require(bool condition, const char* what) {
  if (!condition) throw std::logic_error(std::string("illegal plan: ") + what);
}
}  // namespace

TokenId fake_token(const std::vector<TokenId>& context, std::uint64_t seed, std::uint16_t choice) {
  std::uint64_t hash = 0x9e3779b97f4a7c15ULL ^ seed ^ (static_cast<std::uint64_t>(choice) << 32);
  for (auto token : context) {
    hash ^= token + 0x9e3779b97f4a7c15ULL + (hash << 6) + (hash >> 2);
    hash *= 0xff51afd7ed558ccdULL;
    hash ^= hash >> 29;
  }
  return 3 + 'a' + static_cast<TokenId>(hash % 26);  // a lower-case letter in the tests' vocabulary
}

std::vector<TokenId> fake_tokens(std::vector<TokenId> context, std::size_t count, std::uint64_t seed, std::uint16_t choice) {
  std::vector<TokenId> tokens;
  for (std::size_t i = 0; i < count; ++i) {
    tokens.push_back(fake_token(context, seed, choice));
    context.push_back(tokens.back());
  }
  return tokens;
}

std::vector<TokenId> letters(std::size_t count, unsigned first) {
  std::vector<TokenId> tokens;
  for (std::size_t i = 0; i < count; ++i) tokens.push_back(3U + 'A' + static_cast<TokenId>((i * 7 + i / 5 + first) % 26));
  return tokens;
}

void FakeCache::copy_block(std::uint32_t source, std::uint32_t target, std::size_t tokens) {
  std::copy_n(&memory_.at(std::size_t{source} * kBlockTokens), tokens, &memory_.at(std::size_t{target} * kBlockTokens));
}
void FakeCache::read_block(std::uint32_t block, std::span<std::byte> to) const {
  std::memcpy(to.data(), &memory_.at(std::size_t{block} * kBlockTokens), kBytes);
}
void FakeCache::write_block(std::uint32_t block, std::span<const std::byte> from) {
  std::memcpy(&memory_.at(std::size_t{block} * kBlockTokens), from.data(), kBytes);
}

FakeEngine::~FakeEngine() {
  if (options_.stores_by_hand) *options_.stores_by_hand = nullptr;
}

Status FakeEngine::open_stores(const exec::ShardSpec& spec) {
  exec::RankStoresSpec stores;
  stores.host_blocks = static_cast<std::uint32_t>(spec.host_bytes / FakeCache::kBytes);
  stores.disk_blocks = static_cast<std::uint32_t>(spec.disk_bytes / FakeCache::kBytes);
  stores.domain = {5, 6};
  stores.folder = spec.cache_folder;
  stores.spare_bytes = 0;
  if (options_.stores_by_hand) stores.drive = exec::TierMover::Drive::kByHand;
  cache_ = std::make_unique<FakeCache>(memory_);
  auto opened = exec::RankStores::open(*cache_, stores);
  if (!opened) return opened.error();
  stores_ = std::move(*opened);
  if (options_.stores_by_hand) *options_.stores_by_hand = stores_.get();
  return ok_status();
}

void FakeEngine::will_write(const std::vector<BlockId>& table, std::uint32_t length) {
  if (!stores_) return;
  for (std::size_t i = (length + kBlockTokens - 1) / kBlockTokens; i < table.size(); ++i) stores_->hand_out(table[i]);
}

Result<exec::ShardFacts> FakeEngine::load(const exec::ShardSpec& spec,
                                          const std::function<void(std::size_t done, std::size_t total)>& progress) {
  if (!options_.load_result) return options_.load_result.error();
  progress(1, 2);
  progress(2, 2);
  memory_.assign(static_cast<std::size_t>(options_.blocks) * kBlockTokens, kUnwritten);
  if (auto opened = open_stores(spec); !opened) return opened.error();
  exec::ShardFacts facts;
  facts.block_bytes = FakeCache::kBytes;
  facts.host_blocks = stores_ ? stores_->host_blocks() : 0;
  facts.disk_blocks = stores_ ? stores_->disk_blocks() : 0;
  facts.numerics = kNumerics;
  facts.device_blocks = options_.blocks;
  facts.context_tokens = options_.context_tokens;
  return facts;
}

Result<exec::EpochFacts> FakeEngine::enter_epoch(const exec::EpochEntry& entry, const std::atomic<bool>&) {
  epoch_ = entry.epoch;
  next_ = StepNumber{1};
  sequences_.clear();
  memory_.assign(memory_.size(), kUnwritten);
  return exec::EpochFacts{{}, kNumerics, {}};
}

FakeEngine::Sequence& FakeEngine::sequence(SequenceSlot slot) {
  const auto found = sequences_.find(slot);
  require(found != sequences_.end(), "unknown slot");
  return found->second;
}

TokenId& FakeEngine::slot_of(const Sequence& sequence, std::uint32_t position) {
  require(position / kBlockTokens < sequence.table.size(), "position beyond the table");
  const auto block = sequence.table[position / kBlockTokens];
  require(block < options_.blocks, "block out of range");
  return memory_[static_cast<std::size_t>(block) * kBlockTokens + position % kBlockTokens];
}

std::vector<TokenId> FakeEngine::context(const Sequence& sequence, std::uint32_t length) {
  std::vector<TokenId> tokens;
  for (std::uint32_t position = 0; position < length; ++position) {
    tokens.push_back(slot_of(sequence, position));
    require(tokens.back() != kUnwritten, "read of an unwritten position");
  }
  return tokens;
}

plan::ForwardResult FakeEngine::run(const plan::ForwardPlan& plan, const std::atomic<bool>& abort) {
  if (plan.step != next_ || plan.epoch != epoch_) throw exec::PlanGap("step " + std::to_string(plan.step.value));
  next_.value += 1;
  if (options_.before_step) options_.before_step(++*steps_, abort);
  if (abort) throw exec::StepAborted();
  for (auto slot : plan.dropped) require(sequences_.erase(slot) == 1, "drop of an unknown slot");
  for (const auto& added : plan.added) {
    require(sequences_.emplace(added.sequence, Sequence{added.blocks, added.length, 0, added}).second, "slot in use");
    will_write(added.blocks, added.length);
  }
  for (std::size_t i = 0; i < plan.append_slots.size(); ++i) sequence(plan.append_slots[i]).table.push_back(plan.append_blocks[i]);
  will_write(plan.append_blocks, 0);
  for (const auto& move : plan.copies) {
    will_write({move.target}, 0);
    cache_->copy_block(move.source, move.target, move.tokens);
  }

  struct Row {
    SequenceSlot sequence;
    std::uint32_t position;
  };
  std::vector<Row> rows;
  for (const auto& run : plan.runs) {
    auto& owner = sequence(run.sequence);
    const std::uint32_t start = run.position == plan::kNextPosition ? owner.length : run.position;
    require(start == owner.length, "positions are not consecutive");
    for (std::uint32_t i = 0; i < run.rows; ++i) {
      const TokenId token = plan.tokens.at(rows.size());
      slot_of(owner, start + i) = token == plan::kLastToken ? owner.last : token;
      rows.push_back({run.sequence, start + i});
    }
    owner.length = start + run.rows;
  }
  plan::ForwardResult result;
  result.epoch = plan.epoch;
  result.step = plan.step;
  result.compute_us = 1000;
  for (const auto& sample : plan.samples) {
    const auto& row = rows.at(sample.row);
    auto& drawer = sequence(sample.sequence);
    const auto seen = context(sequence(row.sequence), row.position + 1);
    drawer.last = sample.token == plan::kDraw ? fake_token(seen, drawer.added.sampling.seed, drawer.added.choice) : sample.token;
    // Siblings take the row's positions over with its blocks.
    result.tokens.push_back(drawer.last);
    if (sample.top_logprobs != plan::kNoLogprobs)
      result.logprobs.push_back(-0.25F * static_cast<float>(drawer.last % 7));
    else if (!result.logprobs.empty())
      result.logprobs.push_back(0);
    for (std::uint8_t i = 0; sample.top_logprobs != plan::kNoLogprobs && i < sample.top_logprobs; ++i) {
      result.top_ids.push_back(drawer.last + i);
      result.top_logprobs.push_back(-static_cast<float>(i));
    }
  }
  return result;
}

}  // namespace troupe::test
