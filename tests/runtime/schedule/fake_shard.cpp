#include "tests/runtime/schedule/fake_shard.h"

#include <algorithm>
#include <stdexcept>

namespace troupe::schedule::test {
namespace {
std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 31)) * 0x7fb5d329728ea185ULL;
  x = (x ^ (x >> 27)) * 0x81dadef4bc2dd44dULL;
  return x ^ (x >> 33);
}
}  // namespace

std::uint64_t extend_hash(std::uint64_t hash, TokenId token) { return mix(hash * 31 + token + 1); }
TokenId draw_token(std::uint64_t hash, std::uint64_t seed, std::uint16_t choice) {
  return static_cast<TokenId>(mix(hash + seed * 1000 + choice) % kVocabulary);
}
float score_token(std::uint64_t hash, TokenId token) { return -static_cast<float>(mix(hash ^ token) % 1000) / 100.0F; }

std::vector<TokenId> reference_tokens(std::vector<TokenId> prompt, std::uint64_t seed, std::uint16_t choice, std::uint32_t max_tokens,
                                      bool ignore_eos) {
  std::uint64_t hash = 0;
  for (TokenId token : prompt) hash = extend_hash(hash, token);
  std::vector<TokenId> tokens;
  while (tokens.size() < max_tokens) {
    tokens.push_back(draw_token(hash, seed, choice));
    if (tokens.back() == kEos && !ignore_eos) break;
    hash = extend_hash(hash, tokens.back());
  }
  return tokens;
}

void BlockLedger::clear() {
  leased_.clear();
  locks_.clear();
  lock_count_.clear();
}

void BlockLedger::leased(const kv::BlocksLeased& reply) {
  for (const BlockRange& range : reply.ranges)
    for (BlockId block = range.first; block < range.first + range.count; ++block)
      if (!leased_.insert(block).second) throw std::logic_error("tier leased a block twice");
}

void BlockLedger::matched(const kv::PrefixMatched& reply) {
  for (BlockId block : reply.device_blocks) {
    locks_[reply.lock].push_back(block);
    ++lock_count_[block];
  }
  if (reply.tail_tokens == 0) return;
  locks_[reply.tail_lock].push_back(reply.tail_block);
  ++lock_count_[reply.tail_block];
}

void BlockLedger::published(const kv::PublishBlocks& publish) {
  for (BlockId block : publish.blocks) {
    if (leased_.erase(block) == 0) throw std::logic_error("published a block that is not leased");
    locks_[publish.lock].push_back(block);
    ++lock_count_[block];
  }
}

std::vector<BlockId> BlockLedger::released(const kv::ReleaseBlocks& release) {
  std::vector<BlockId> gone;
  for (LockId lock : release.locks) {
    for (BlockId block : locks_[lock])
      if (--lock_count_[block] == 0) gone.push_back(block);
    locks_.erase(lock);
  }
  for (const BlockRange& range : release.leased)
    for (BlockId block = range.first; block < range.first + range.count; ++block) {
      if (leased_.erase(block) == 0) throw std::logic_error("gave back a block that is not leased");
      gone.push_back(block);
    }
  return gone;
}

bool BlockLedger::held(BlockId block) const {
  const auto locked = lock_count_.find(block);
  return leased_.contains(block) || (locked != lock_count_.end() && locked->second > 0);
}

void FakeShard::enter_epoch(GroupEpoch epoch, std::uint32_t blocks) {
  epoch_ = epoch;
  last_step_ = 0;
  kv_.assign(blocks, {});
  plans_.clear();
  planned_.clear();
  slots_.clear();
}

void FakeShard::check(bool condition, const std::string& what, std::uint64_t value) const {
  if (!condition)
    throw std::logic_error("illegal plan after step " + std::to_string(last_step_) + ": " + what + " " + std::to_string(value));
}

FakeShard::Slot& FakeShard::slot_of(Table& slots, SequenceSlot slot) const {
  const auto at = slots.find(slot.value);
  check(at != slots.end(), "unknown slot", slot.value);
  return at->second;
}

void FakeShard::apply_deltas(Table& slots, const plan::ForwardPlan& plan, bool check_blocks) const {
  for (SequenceSlot slot : plan.dropped) check(slots.erase(slot.value) == 1, "drops an unknown slot", slot.value);
  // Siblings added here share prompt blocks that their parent gets in this very plan: they are no other owner.
  std::set<std::uint32_t> siblings;
  for (const plan::AddedSequence& added : plan.added)
    if (added.length / kBlockTokens == added.blocks.size()) siblings.insert(added.sequence.value);
  const auto check_fresh = [&](BlockId block) {
    if (!check_blocks) return;
    check(!named_in_flight(block), "a block goes to a new owner while a plan in flight names it:", block);
    for (const auto& [number, slot] : slots)
      if (!siblings.contains(number))
        check(std::find(slot.table.begin(), slot.table.end(), block) == slot.table.end(),
              "a block of slot " + std::to_string(number) + " (request " + std::to_string(slot.seed) + ", choice " +
                  std::to_string(slot.choice) + ") goes to another owner:",
              block);
  };
  std::set<BlockId> copied;
  for (const plan::BlockMove& move : plan.copies) copied.insert(move.target);
  for (const plan::AddedSequence& added : plan.added) {
    check(!slots.contains(added.sequence.value), "adds a slot in use", added.sequence.value);
    check(added.blocks.size() >= added.length / kBlockTokens && added.blocks.size() * kBlockTokens < added.length + kBlockTokens,
          "table of an added sequence does not fit its length", added.length);
    if (added.length % kBlockTokens != 0 && added.blocks.size() > added.length / kBlockTokens) {
      check(copied.contains(added.blocks.back()), "an added partial block is no copy:", added.blocks.back());
      check_fresh(added.blocks.back());
    }
    slots[added.sequence.value] = {added.sampling.seed, added.choice, added.length, added.blocks, kNone32};
  }
  check(plan.append_slots.size() == plan.append_blocks.size(), "appends do not agree");
  for (std::size_t i = 0; i < plan.append_slots.size(); ++i) {
    check_fresh(plan.append_blocks[i]);
    slot_of(slots, plan.append_slots[i]).table.push_back(plan.append_blocks[i]);
  }
}

/// What only ranks that work together notice.
void FakeShard::check_group(const plan::ForwardPlan& plan) const {
  check(plan.cuts.empty() || ranks > 1, "cuts of one rank's rows:", plan.cuts.size());
  check(plan.cuts.size() < plan::kMostParts, "cuts of a plan:", plan.cuts.size());
  std::uint32_t first = 0;
  for (const std::uint32_t cut : plan.cuts) {
    check(cut > first && cut < plan.tokens.size(), "cut at row", cut);
    first = cut;
  }
  if (stages == 1) return;
  // The first stage would stand still until the last one has drawn it.
  check(std::find(plan.tokens.begin(), plan.tokens.end(), plan::kLastToken) == plan.tokens.end(), "a row whose token is not yet drawn");
  check(plans_.size() <= stages, "more plans in flight than stages and one more:", plans_.size() + 1);
}

void FakeShard::accept(const plan::ForwardPlan& plan) {
  check(plan.epoch == epoch_, "epoch", plan.epoch.value);
  check(plan.step.value == last_step_ + 1, "gap in steps", plan.step.value);
  check(!plan.runs.empty(), "nothing to run");
  check_group(plan);
  apply_deltas(planned_, plan, true);
  Accepted accepted{plan, {}};
  const auto name = [&](BlockId block) {
    check(block < kv_.size() && ledger_.held(block), "names a block that is neither leased nor locked:", block);
    accepted.named.insert(block);
  };
  for (const plan::BlockMove& move : plan.copies) {
    check(move.tokens > 0 && move.tokens < kBlockTokens && move.source != move.target, "copy", move.tokens);
    name(move.source);
    name(move.target);
  }
  std::size_t rows = 0;
  bool prefill_seen = false;
  std::set<std::uint32_t> seen;
  for (const plan::RowRun& run : plan.runs) {
    Slot& slot = slot_of(planned_, run.sequence);
    check(seen.insert(run.sequence.value).second, "two runs of one slot", run.sequence.value);
    check(run.rows > 0 && run.draft_rows == 0, "rows");
    check(run.position == plan::kNextPosition || run.position == slot.length, "position", run.position);
    const bool decode = run.rows == 1 && plan.tokens.at(rows) == plan::kLastToken;
    check(!decode || !prefill_seen, "decode after prefill");
    prefill_seen = prefill_seen || run.rows > 1;
    slot.length += run.rows;
    rows += run.rows;
    check(slot.length <= slot.table.size() * kBlockTokens, "rows beyond the table", slot.length);
    check(slot.length + kBlockTokens > slot.table.size() * kBlockTokens, "blocks ahead of rows", slot.table.size());
    for (BlockId block : slot.table) name(block);
  }
  check(rows == plan.tokens.size(), "row count", rows);
  for (const plan::Sample& sample : plan.samples) {
    check(sample.row < rows, "sample row", sample.row);
    slot_of(planned_, sample.sequence);
  }
  last_step_ = plan.step.value;
  plans_.push_back(std::move(accepted));
}

bool FakeShard::named_in_flight(BlockId block) const {
  return std::any_of(plans_.begin(), plans_.end(), [block](const Accepted& accepted) { return accepted.named.contains(block); });
}

std::pair<std::uint64_t, std::uint16_t> FakeShard::owner(SequenceSlot slot) const {
  const Slot& at = planned_.at(slot.value);
  return {at.seed, at.choice};
}

FakePosition& FakeShard::position(const Slot& slot, std::uint32_t index) {
  return kv_[slot.table.at(index / kBlockTokens)][index % kBlockTokens];
}

/// Reads all positions before, checking that they continue each other, and writes this one.
std::uint64_t FakeShard::write_row(Slot& slot, std::uint32_t index, TokenId token) {
  std::uint64_t hash = 0;
  for (std::uint32_t i = 0; i < index; ++i) {
    const FakePosition& read = position(slot, i);
    check(read.token != kNone32, "reads a position never written:", i);
    hash = extend_hash(hash, read.token);
    check(read.hash == hash, "reads K and V of another sequence at position", i);
  }
  FakePosition& written = position(slot, index);
  hash = extend_hash(hash, token);
  check(written.token == kNone32, "writes a position twice:", index);
  written = {token, hash};
  return hash;
}

void FakeShard::take_time(const plan::ForwardPlan& plan, plan::ForwardResult& result) const {
  const auto rows = static_cast<std::uint32_t>(plan.tokens.size());
  const std::uint32_t compute = step_us + row_us * rows;
  result.wire_us = wire_row_us * rows;
  result.compute_us = compute + result.wire_us;
  result.wait_us = result.reduce_wait_us = result.wire_us;
  if (plan.cuts.empty()) return;
  const auto cuts = static_cast<std::uint32_t>(plan.cuts.size());
  // Each reads the weights; with a tenth of the shorter lane for their beginning and end.
  const std::uint32_t parts = compute * (100 + 2 * cuts) / 100 + step_us * cuts;
  result.compute_us = std::max(parts, result.wire_us) + std::min(parts, result.wire_us) / 10;
  result.wait_us = result.reduce_wait_us = result.compute_us - parts;
}

plan::ForwardResult FakeShard::run_next() {
  const plan::ForwardPlan plan = plans_.front().plan;
  apply_deltas(slots_, plan, false);
  for (BlockId block : plan.append_blocks) kv_[block] = {};  // a new owner must not find what it did not write
  for (const plan::BlockMove& move : plan.copies) {
    kv_[move.target] = {};
    for (std::uint16_t i = 0; i < move.tokens; ++i) {
      check(kv_[move.source][i].token != kNone32, "copies a position never written:", i);
      kv_[move.target][i] = kv_[move.source][i];
    }
  }
  std::vector<std::uint64_t> hashes;
  for (const plan::RowRun& run : plan.runs) {
    Slot& slot = slot_of(slots_, run.sequence);
    for (std::uint32_t i = 0; i < run.rows; ++i) {
      TokenId token = plan.tokens[hashes.size()];
      if (token == plan::kLastToken) token = slot.last_token;
      check(token < kVocabulary, "last token of a slot that drew none");
      hashes.push_back(write_row(slot, slot.length, token));
      ++slot.length;
    }
  }
  plan::ForwardResult result;
  result.epoch = plan.epoch;
  result.step = plan.step;
  take_time(plan, result);
  const bool wanted = std::any_of(plan.samples.begin(), plan.samples.end(),
                                  [](const plan::Sample& sample) { return sample.top_logprobs != plan::kNoLogprobs; });
  for (const plan::Sample& sample : plan.samples) {
    Slot& slot = slot_of(slots_, sample.sequence);
    const std::uint64_t hash = hashes[sample.row];
    TokenId token = sample.token;
    if (token == plan::kDraw) {
      token = slot.last_token = draw_token(hash, slot.seed, slot.choice);
      if (fail_draw_) result.failed_samples.push_back(static_cast<std::uint32_t>(result.tokens.size()));
      fail_draw_ = false;
    }
    result.tokens.push_back(token);
    if (wanted) result.logprobs.push_back(score_token(hash, token));
    for (TokenId top = 0; sample.top_logprobs != plan::kNoLogprobs && top < sample.top_logprobs; ++top) {
      result.top_ids.push_back(top);
      result.top_logprobs.push_back(score_token(hash, top));
    }
  }
  plans_.pop_front();
  return result;
}

}  // namespace troupe::schedule::test
