// FakeShard: runs ForwardPlans over fake K and V and checks that every plan is legal. A written position holds its token and a hash of all
// tokens up to it, and a draw is a function of that hash: so a wrong block is a wrong token, as with a real model.
#pragma once
#include "runtime/kv/tier_messages.h"
#include "runtime/plan/forward_plan.h"

#include <array>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace troupe::schedule::test {

inline constexpr TokenId kVocabulary = 40;
inline constexpr TokenId kEos = 7;

std::uint64_t extend_hash(std::uint64_t hash, TokenId token);
TokenId draw_token(std::uint64_t hash, std::uint64_t seed, std::uint16_t choice);
float score_token(std::uint64_t hash, TokenId token);
/// What an undisturbed model generates: `max_tokens` tokens, or up to and with the first EOS.
std::vector<TokenId> reference_tokens(std::vector<TokenId> prompt, std::uint64_t seed, std::uint16_t choice, std::uint32_t max_tokens,
                                      bool ignore_eos);

struct FakePosition {
  TokenId token = kNone32;
  std::uint64_t hash = 0;
};
using FakeBlock = std::array<FakePosition, kBlockTokens>;

/// Blocks that the scheduler may name: leased to it, or under one of its locks.
class BlockLedger {
 public:
  void clear();
  void leased(const kv::BlocksLeased& reply);
  void matched(const kv::PrefixMatched& reply);
  void published(const kv::PublishBlocks& publish);
  /// Returns the blocks that nothing holds any more.
  std::vector<BlockId> released(const kv::ReleaseBlocks& release);
  bool held(BlockId block) const;
  bool leased_out(BlockId block) const { return leased_.contains(block); }
  bool empty_but_lease() const { return locks_.empty(); }

 private:
  std::set<BlockId> leased_;
  std::map<LockId, std::vector<BlockId>> locks_;
  std::map<BlockId, int> lock_count_;
};

class FakeShard {
 public:
  explicit FakeShard(const BlockLedger& ledger) : ledger_(ledger) {}
  void enter_epoch(GroupEpoch epoch, std::uint32_t blocks);
  /// Checks the plan against the ledger and the plans in flight; throws std::logic_error saying what is wrong.
  void accept(const plan::ForwardPlan& plan);
  bool has_plan() const { return !plans_.empty(); }
  std::size_t plans_in_flight() const { return plans_.size(); }
  plan::ForwardResult run_next();
  bool named_in_flight(BlockId block) const;
  const FakeBlock& block(BlockId block) const { return kv_.at(block); }
  void write_block(BlockId block, const FakeBlock& bytes) { kv_.at(block) = bytes; }
  /// "A.1": request and choice of a slot, as of the last accepted plan. The seed is the request's number.
  std::pair<std::uint64_t, std::uint16_t> owner(SequenceSlot slot) const;
  void fail_next_draw() { fail_draw_ = true; }
  std::uint32_t step_us = 500, row_us = 20;
  std::uint32_t stages = 1, ranks = 1;  // of the group that this shard stands for
  std::uint32_t wire_row_us = 0;        // of reduces: after the compute, or under it where the plan is cut

 private:
  struct Slot {
    std::uint64_t seed = 0;
    std::uint16_t choice = 0;
    std::uint32_t length = 0;
    std::vector<BlockId> table;
    TokenId last_token = kNone32;
  };
  using Table = std::map<std::uint32_t, Slot>;
  struct Accepted {
    plan::ForwardPlan plan;
    std::set<BlockId> named;
  };

  void check(bool condition, const std::string& what, std::uint64_t value = 0) const;
  Slot& slot_of(Table& slots, SequenceSlot slot) const;
  void take_time(const plan::ForwardPlan& plan, plan::ForwardResult& result) const;
  void check_group(const plan::ForwardPlan& plan) const;
  void apply_deltas(Table& slots, const plan::ForwardPlan& plan, bool check_blocks) const;
  FakePosition& position(const Slot& slot, std::uint32_t index);
  std::uint64_t write_row(Slot& slot, std::uint32_t index, TokenId token);

  const BlockLedger& ledger_;
  GroupEpoch epoch_;
  std::uint64_t last_step_ = 0;
  std::vector<FakeBlock> kv_;
  std::deque<Accepted> plans_;
  Table planned_, slots_;  // after all accepted plans; after all run plans
  bool fail_draw_ = false;
};

}  // namespace troupe::schedule::test
