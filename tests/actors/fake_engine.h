// FakeEngine: a ShardEngine whose "K and V" are token ids. A token is a function of all ids that the sequence's table shows up to its row,
// of seed and choice: a wrong block, a missing copy or a lost position is another token. Plans are checked on the way.
// Faults are injected by a hook that runs before each step. With bytes for a tier below the device its blocks travel, 128 bytes each.
#pragma once
#include "runtime/exec/shard_engine.h"

#include <functional>
#include <map>
#include <memory>
#include <vector>

namespace troupe::test {

/// What the engine draws after `context`; the tests' own prediction.
TokenId fake_token(const std::vector<TokenId>& context, std::uint64_t seed, std::uint16_t choice);
/// `count` tokens drawn one after the other behind `prompt`.
std::vector<TokenId> fake_tokens(std::vector<TokenId> prompt, std::size_t count, std::uint64_t seed = 0, std::uint16_t choice = 0);

/// A prompt of capital letters; another `first`, another prompt.
std::vector<TokenId> letters(std::size_t count, unsigned first = 0);

struct FakeEngineOptions {
  std::uint32_t blocks = 64;
  std::uint32_t context_tokens = 2048;
  std::function<void(std::uint64_t step, const std::atomic<bool>& abort)> before_step;  // may throw; counts over all epochs
  Status load_result = ok_status();
  /// Where given: the stores of the living engine are put here (null: none), and move blocks only when run_one() is called.
  std::shared_ptr<exec::RankStores*> stores_by_hand;
};

/// Blocks of token ids as a K/V cache.
class FakeCache final : public kernels::KvCache {
 public:
  static constexpr std::size_t kBytes = kBlockTokens * sizeof(TokenId);
  explicit FakeCache(std::vector<TokenId>& memory) : memory_(memory) { shape_.blocks = memory.size() / kBlockTokens; }
  std::size_t bytes() const override { return memory_.size() * sizeof(TokenId); }
  void copy_block(std::uint32_t source, std::uint32_t target, std::size_t tokens) override;
  void make_resident(std::size_t, std::uint32_t, std::uint32_t) override {}
  void poison_block(std::uint32_t) override {}
  std::size_t block_bytes() const override { return kBytes; }
  std::string block_layout() const override { return "token ids"; }
  void read_block(std::uint32_t block, std::span<std::byte> to) const override;
  void write_block(std::uint32_t block, std::span<const std::byte> from) override;

 private:
  std::vector<TokenId>& memory_;
};

class FakeEngine final : public exec::ShardEngine {
 public:
  /// `steps` outlives the engine: steps run over the life of the process.
  FakeEngine(FakeEngineOptions options, std::shared_ptr<std::uint64_t> steps) : options_(std::move(options)), steps_(std::move(steps)) {}
  ~FakeEngine() override;
  Result<exec::ShardFacts> load(const exec::ShardSpec& spec,
                                const std::function<void(std::size_t done, std::size_t total)>& progress) override;
  Result<exec::EpochFacts> enter_epoch(const exec::EpochEntry& entry, const std::atomic<bool>& abort) override;
  plan::ForwardResult run(const plan::ForwardPlan& plan, const std::atomic<bool>& abort) override;
  exec::RankStores* stores() override { return stores_.get(); }

 private:
  struct Sequence {
    std::vector<BlockId> table;
    std::uint32_t length = 0;
    TokenId last = 0;
    plan::AddedSequence added;
  };
  Status open_stores(const exec::ShardSpec& spec);
  void will_write(const std::vector<BlockId>& table, std::uint32_t length);
  Sequence& sequence(SequenceSlot slot);
  TokenId& slot_of(const Sequence& sequence, std::uint32_t position);
  std::vector<TokenId> context(const Sequence& sequence, std::uint32_t length);

  FakeEngineOptions options_;
  std::shared_ptr<std::uint64_t> steps_;
  GroupEpoch epoch_;
  StepNumber next_{1};
  std::map<SequenceSlot, Sequence> sequences_;
  std::vector<TokenId> memory_;  // blocks x 32
  std::unique_ptr<FakeCache> cache_;
  std::unique_ptr<exec::RankStores> stores_;
};

}  // namespace troupe::test
