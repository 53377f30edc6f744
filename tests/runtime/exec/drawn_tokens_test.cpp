// How ranks that do not sample hear of what was drawn: plans by hand, several of them in flight.
#include "runtime/exec/drawn_tokens.h"

#include "tests/support/scratch_folder.h"
#include "tests/support/shard_group.h"
#include "tests/support/tiny_model.h"

#include <catch2/catch.hpp>

using namespace troupe;

namespace {

const base::ParallelShape kShapes[] = {{2, 1}, {1, 2}, {2, 2}};

test::LoadedModel load(const base::ParallelShape& shape) {
  test::TinyModelOptions tiny;
  tiny.head_dim = 32;
  test::GroupLoad group;
  group.shape = shape;
  return test::load_group_for_test(test::write_tiny_model(test::scratch_folder(), tiny), group);
}

class Plans {
 public:
  explicit Plans(std::uint32_t epoch) : epoch_(epoch) {}
  plan::ForwardPlan next() {
    plan::ForwardPlan plan;
    plan.epoch = {epoch_};
    plan.step = {++step_};
    return plan;
  }
  /// A new sequence in slot 0 that reads `tokens` and draws.
  plan::ForwardPlan begin(const std::vector<TokenId>& tokens, std::vector<BlockId> blocks, bool drop = false) {
    plan::ForwardPlan plan = next();
    if (drop) plan.dropped = {{0}};
    plan::AddedSequence added;
    added.blocks = std::move(blocks);
    added.sampling.temperature = 0.0F;
    plan.added = {added};
    plan.runs = {{{0}, 0, static_cast<std::uint32_t>(tokens.size()), 0}};
    plan.tokens = tokens;
    plan.samples = {{static_cast<std::uint32_t>(tokens.size() - 1), {0}, plan::kDraw, 0, 0}};
    return plan;
  }
  plan::ForwardPlan more(TokenId token = plan::kLastToken) {
    plan::ForwardPlan plan = next();
    plan.runs = {{{0}, plan::kNextPosition, 1, 0}};
    plan.tokens = {token};
    plan.samples = {{0, {0}, plan::kDraw, 0, 0}};
    return plan;
  }

 private:
  std::uint32_t epoch_;
  std::uint64_t step_ = 0;
};

}  // namespace

TEST_CASE("Of a slot that changed hands, the old sequence's tokens are dropped", "[drawn_tokens]") {
  const std::vector<TokenId> old_prompt{20, 21, 22, 23}, new_prompt{90, 80, 70};
  for (const base::ParallelShape& shape : kShapes) {
    CAPTURE(shape.tensor_ranks, shape.stages);
    test::LoadedModel model = load(shape);
    test::ShardGroup group(model, {});
    group.enter_epoch({1});
    Plans alone(1);
    std::vector<TokenId> wanted{group.run(alone.begin(new_prompt, {3})).tokens.at(0)};
    for (int i = 0; i < 4; ++i) wanted.push_back(group.run(alone.more()).tokens.at(0));

    group.enter_epoch({2});
    Plans plans(2);
    // All in flight at once: the wasted row of the old sequence is drawn when the new one has its slot on this rank already.
    group.post(plans.begin(old_prompt, {0}));
    group.post(plans.more());
    group.post(plans.begin(new_prompt, {1}, true));
    for (int i = 0; i < 4; ++i) group.post(plans.more());
    const TokenId old_token = group.result().tokens.at(0);
    group.result();
    std::vector<TokenId> got;
    for (int i = 0; i < 5; ++i) got.push_back(group.result().tokens.at(0));
    CHECK(got == wanted);
    CHECK(old_token != wanted[0]);  // else nothing was tested
    group.wait_until_idle();
  }
}

TEST_CASE("Tokens that no row needs do not pile up", "[drawn_tokens]") {
  for (const base::ParallelShape& shape : kShapes) {
    CAPTURE(shape.tensor_ranks, shape.stages);
    test::LoadedModel model = load(shape);
    test::ShardGroup group(model, {});
    group.enter_epoch({1});
    Plans plans(1);
    std::vector<BlockId> blocks(10);
    for (BlockId block = 0; block < blocks.size(); ++block) blocks[block] = block;
    group.run(plans.begin({50}, blocks));
    for (TokenId i = 1; i < 300; ++i) REQUIRE(group.run(plans.more(i)).tokens.size() == 1);  // more than an outbox holds
    CHECK_NOTHROW(group.wait_until_idle());
  }
}
