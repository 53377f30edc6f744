#include "runtime/schedule/overlap_policy.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>
#include <vector>

namespace troupe::schedule {
namespace {
using Runs = std::vector<PlannedRun>;

/// A group of ranks as it might be: written down apart from the policy, and with segments of other sizes than it believes in.
struct Group {
  double base_us = 2000, row_us = 100, position_us = 0.04;  // of compute
  double wire_us = 100, reduce_us = 60;                     // a row, all reduces; a reduce
  std::uint32_t reduces = 12;
  double attention_work = 0.25;  // of a layer's products
  double split_cost = 0.04;      // of compute

  double compute_us(double first, double rows, bool attention) const {
    const double products = (base_us + row_us * rows) * (attention ? attention_work : 1 - attention_work);
    return (products + (attention ? position_us * rows * (first + rows / 2) : 0)) / (reduces / 2.0);
  }
  /// A chunk from `position` on; both lanes written as events.
  double step_us(double position, double rows, double split) const {
    const auto reduce = [this](double part) { return reduce_us + wire_us * part / reduces; };
    double core = 0, wire = 0, a_done = 0, b_done = 0;
    for (std::uint32_t i = 0; i < reduces; ++i) {
      const bool attention = i % 2 == 0;
      if (split == 0) {
        core += compute_us(position, rows, attention) + reduce(rows);
        continue;
      }
      core = std::max(core, a_done) + compute_us(position, split, attention) * (1 + split_cost);
      a_done = wire = std::max(core, wire) + reduce(split);
      core = std::max(core, b_done) + compute_us(position + split, rows - split, attention) * (1 + split_cost);
      b_done = wire = std::max(core, wire) + reduce(rows - split);
    }
    return std::max(core, wire);
  }
  double best_us(double position, std::uint32_t rows) const {
    double best = step_us(position, rows, 0);
    for (std::uint32_t split = 1; split < rows; ++split) best = std::min(best, step_us(position, rows, split));
    return best;
  }
  double busy_us(double position, double rows, double split) const {
    const auto both = [&](double first, double part) { return compute_us(first, part, true) + compute_us(first, part, false); };
    if (split == 0) return both(position, rows) * reduces / 2;
    return (both(position, split) + both(position + split, rows - split)) * (1 + split_cost) * reduces / 2;
  }
  double busy_wire_us(double rows, double split) const { return reduces * (split > 0 ? 2 : 1) * reduce_us + wire_us * rows; }
  GroupSpeed speed() const { return {row_us, wire_us, reduce_us, reduces, 2048}; }
};

Runs chunk(std::uint32_t position, std::uint32_t rows) { return {{1, position, rows, false}}; }
Runs streams(std::uint32_t count, std::uint32_t position) {
  Runs runs;
  for (std::uint32_t i = 0; i < count; ++i) runs.push_back({10 + i, position, 1, true});
  return runs;
}
OverlapPolicy policy_of(const Group& group, OverlapMode mode = OverlapMode::kAuto) {
  OverlapPolicy policy(mode);
  policy.enter_group(2, group.speed());
  return policy;
}
/// What the group does with these rows, told as results tell it.
void run(OverlapPolicy& policy, const Group& group, std::uint32_t position, std::uint32_t rows, double noise = 1) {
  const Runs runs = chunk(position, rows);
  const std::uint32_t split = policy.choose(runs).split;
  policy.observe(runs, split, group.busy_us(position, rows, split) * noise, group.busy_wire_us(rows, split) * noise);
}
}  // namespace

TEST_CASE("overlap is near the best split, whatever the wire and the compute are to each other") {
  for (double ratio : {0.0, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.3, 2.0, 4.0, 10.0})
    for (std::uint32_t reduces : {4U, 12U, 60U})
      for (std::uint32_t rows : {64U, 128U, 512U, 2048U})
        for (std::uint32_t position : {0U, 1536U, 6000U}) {
          Group group;
          group.reduces = reduces;
          group.reduce_us = 400.0 / reduces;
          group.wire_us = ratio * group.row_us;
          OverlapPolicy policy = policy_of(group);
          for (int i = 0; i < 12; ++i) run(policy, group, i % 4 * 512, 32 + i % 3 * 240);
          const OverlapChoice choice = policy.choose(chunk(position, rows));
          INFO("wire/compute " << ratio << ", reduces " << reduces << ", rows " << rows << " from " << position << ", split "
                               << choice.split);
          const double chosen = group.step_us(position, rows, choice.split), best = group.best_us(position, rows);
          CHECK(chosen <= 1.03 * best);
          CHECK(chosen <= 1.002 * group.step_us(position, rows, 0));  // never much worse than doing nothing
        }
}

TEST_CASE("what is predicted to gain nothing is not split, and what is split is predicted to gain") {
  std::mt19937 random(7);
  int split = 0, whole = 0;
  for (int i = 0; i < 3000; ++i) {
    Group group;
    group.wire_us = group.row_us * std::pow(10.0, random() % 300 / 100.0 - 2);
    group.reduces = 2 + random() % 40 * 2;
    const OverlapPolicy policy = policy_of(group);
    Runs runs = streams(random() % 20, random() % 3000);
    if (random() % 4 > 0)
      runs.push_back({1, static_cast<std::uint32_t>(random() % 4000), 1 + static_cast<std::uint32_t>(random() % 600), false});
    std::uint32_t rows = 0;
    for (const PlannedRun& run : runs) rows += run.rows;
    if (rows == 0) continue;
    const OverlapChoice choice = policy.choose(runs);
    (choice.split > 0 ? split : whole)++;
    if (choice.split == 0) {
      CHECK(choice.share == 1.0);
      continue;
    }
    CHECK(choice.split >= OverlapPolicy::kLeastPart);
    CHECK(rows - choice.split >= OverlapPolicy::kLeastPart);
    CHECK(choice.share <= 1 - OverlapPolicy::kLeastGain);
    CHECK(policy.predict_us(runs, choice.split) <= (1 - OverlapPolicy::kLeastGain) * policy.predict_us(runs, 0));
  }
  CHECK(split > 300);
  CHECK(whole > 300);
}

TEST_CASE("the balanced split leaves both parts the same time, with attention that grows") {
  for (double position_us : {0.0, 0.02, 0.1, 0.5})
    for (std::uint32_t rows : {64U, 512U, 2048U}) {
      Group group;
      group.base_us = 16 * group.row_us;  // as the policy believes before it has seen a step
      group.position_us = position_us;
      OverlapPolicy policy = policy_of(group);
      for (int i = 0; i < 60; ++i) {
        const std::uint32_t position = i % 6 * 700;
        policy.observe(chunk(position, 100 + i % 5 * 300), 0, group.busy_us(position, 100 + i % 5 * 300, 0), group.busy_wire_us(100, 0));
      }
      std::uint32_t best = 1;
      const auto apart = [&](std::uint32_t split) {
        const auto both = [&](double first, double part) {
          return group.compute_us(first, part, true) + group.compute_us(first, part, false);
        };
        return std::abs(both(0, split) - both(split, rows - split));
      };
      for (std::uint32_t split = 2; split < rows; ++split)
        if (apart(split) < apart(best)) best = split;
      const std::uint32_t found = policy.balanced_split(chunk(0, rows));
      INFO("a position costs " << position_us << " us, rows " << rows << ": " << found << ", best " << best);
      CHECK(std::abs(static_cast<double>(found) - best) <= 2 + rows * 0.004);
      CHECK(found >= rows / 2);
    }
}

TEST_CASE("streams alone are never split, and count in front of a chunk") {
  Group group;
  group.wire_us = group.row_us;
  const OverlapPolicy policy = policy_of(group);
  CHECK(policy.choose(streams(200, 500)).split == 0);
  Runs runs = streams(40, 3000);
  runs.push_back({1, 0, 200, false});
  const OverlapChoice choice = policy.choose(runs);
  CHECK(choice.split > 32);
  CHECK(choice.split < 208);
}

TEST_CASE("a fast link, one rank, a group that measured nothing, and `off`: never split") {
  Group slow, fast;
  slow.wire_us = slow.row_us;
  fast.wire_us = 0.02 * fast.row_us;
  fast.reduce_us = 5;
  CHECK(policy_of(slow).choose(chunk(0, 512)).split > 0);
  CHECK(policy_of(fast).choose(chunk(0, 2048)).split == 0);
  CHECK(policy_of(slow, OverlapMode::kOff).choose(chunk(0, 512)).split == 0);
  OverlapPolicy alone(OverlapMode::kAlways);
  alone.enter_group(1, slow.speed());
  CHECK(alone.choose(chunk(0, 512)).split == 0);
  OverlapPolicy unmeasured(OverlapMode::kAuto);
  unmeasured.enter_group(2, {});
  unmeasured.observe(chunk(0, 512), 0, 1000, 1000);
  CHECK(unmeasured.choose(chunk(0, 512)).split == 0);
}

TEST_CASE("`always` splits whatever has two rows, measured or not") {
  OverlapPolicy policy(OverlapMode::kAlways);
  policy.enter_group(2, {});
  CHECK(policy.choose(chunk(0, 1)).split == 0);
  CHECK(policy.choose(chunk(0, 2)).split == 1);
  CHECK(policy.choose(streams(2, 100)).split == 1);
  const std::uint32_t middle = policy.choose(chunk(0, 100)).split;
  CHECK(middle >= 50);
  CHECK(middle < 60);
  CHECK(policy.choose(chunk(0, 100)).share == 1.0);
}

TEST_CASE("results correct what was measured at the start") {
  Group told, real;
  told.wire_us = 0.01 * told.row_us;  // measured on an idle link
  real.wire_us = real.row_us;
  OverlapPolicy policy = policy_of(told);
  CHECK(policy.choose(chunk(0, 512)).split == 0);
  std::mt19937 random(3);
  int steps = 0;
  for (; steps < 400 && policy.choose(chunk(0, 512)).split == 0; ++steps) run(policy, real, 0, 512, (95 + random() % 11) / 100.0);
  CHECK(steps < 100);
  for (steps = 0; steps < 400 && policy.choose(chunk(0, 512)).split > 0; ++steps) run(policy, told, 0, 512, (95 + random() % 11) / 100.0);
  CHECK(steps < 100);
}

TEST_CASE("numbers that no measurement gives are borne") {
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinite = std::numeric_limits<double>::infinity();
  for (double number : {nan, infinite, -infinite, -1.0, 0.0, 1e300})
    for (std::uint32_t reduces : {1U, 7U, 0xffffffffU}) {
      OverlapPolicy policy(OverlapMode::kAuto);
      policy.enter_group(2, {number, number, number, reduces, 0xffffffffU});
      const OverlapChoice choice = policy.choose(chunk(0, 512));
      CHECK(choice.split < 512);
      CHECK(choice.share <= 1);
      CHECK(choice.share >= 0.3);
    }
  CHECK_THROWS(overlap_mode("sometimes"));
}

}  // namespace troupe::schedule
