#include "runtime/schedule/overlap_policy.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <random>
#include <utility>
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
  double part_us = 700;          // of compute, a part more

  double compute_us(double first, double rows, bool attention, std::size_t parts) const {
    const auto shared_by = static_cast<double>(parts);
    const double products =
        ((base_us + part_us * (shared_by - 1)) / shared_by + row_us * rows) * (attention ? attention_work : 1 - attention_work);
    return (products + (attention ? position_us * rows * (first + rows / 2) : 0)) / (reduces / 2.0);
  }
  /// A chunk from `position` on, in parts of these rows; both lanes written as events.
  double step_us(double position, const std::vector<double>& parts) const {
    const auto reduce = [this](double part) { return reduce_us + wire_us * part / reduces; };
    std::vector<double> done(parts.size(), 0.0);
    double core = 0, wire = 0;
    for (std::uint32_t i = 0; i < reduces; ++i) {
      double first = position;
      for (std::size_t p = 0; p < parts.size(); first += parts[p++]) {
        core = std::max(core, done[p]) + compute_us(first, parts[p], i % 2 == 0, parts.size());
        done[p] = wire = std::max(core, wire) + reduce(parts[p]);
      }
    }
    return wire;
  }
  /// In two parts, of any size.
  double best_us(double position, std::uint32_t rows) const {
    double best = step_us(position, {double(rows)});
    for (std::uint32_t cut = 1; cut < rows; ++cut) best = std::min(best, step_us(position, {double(cut), double(rows - cut)}));
    return best;
  }
  double busy_us(double position, const std::vector<double>& parts) const {
    double sum = 0;
    for (const double rows : parts) {
      sum += (compute_us(position, rows, true, parts.size()) + compute_us(position, rows, false, parts.size())) * reduces / 2;
      position += rows;
    }
    return sum;
  }
  double busy_wire_us(const std::vector<double>& parts) const {
    return reduces * static_cast<double>(parts.size()) * reduce_us + wire_us * std::accumulate(parts.begin(), parts.end(), 0.0);
  }
  /// As a rank measures them, all longer by `noise`.
  OverlapPolicy::StepTimes times(double position, const std::vector<double>& parts, double noise = 1) const {
    const double busy = busy_us(position, parts);
    return {busy * noise, (step_us(position, parts) - busy) * noise};
  }
  GroupSpeed speed() const { return {row_us, wire_us, reduce_us, reduces, 2048}; }
};

Runs chunk(std::uint32_t position, std::uint32_t rows) { return {{1, position, rows, false}}; }
Runs streams(std::uint32_t count, std::uint32_t position) {
  Runs runs;
  for (std::uint32_t i = 0; i < count; ++i) runs.push_back({10 + i, position, 1, true});
  return runs;
}
/// Rows of each part.
std::vector<double> parts_of(const std::vector<std::uint32_t>& cuts, std::uint32_t rows) {
  std::vector<double> parts;
  std::uint32_t first = 0;
  for (const std::uint32_t cut : cuts) parts.push_back(cut - std::exchange(first, cut));
  parts.push_back(rows - first);
  return parts;
}
OverlapPolicy policy_of(const Group& group, OverlapMode mode = OverlapMode::kAuto) {
  OverlapPolicy policy(mode);
  policy.enter_group(2, group.speed());
  return policy;
}
/// What the group does with these rows, told as results tell it.
void run(OverlapPolicy& policy, const Group& group, std::uint32_t position, std::uint32_t rows, double noise = 1) {
  const Runs runs = chunk(position, rows);
  const std::vector<std::uint32_t> cuts = policy.choose(runs).cuts;
  policy.observe(runs, cuts, group.times(position, parts_of(cuts, rows), noise));
}
}  // namespace

TEST_CASE("overlap is near the best of two parts or better, whatever the wire and the compute are to each other") {
  int more = 0;  // where more than two parts beat the best two
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
          CAPTURE(ratio, reduces, rows, position, choice.cuts);
          const double chosen = group.step_us(position, parts_of(choice.cuts, rows));
          CHECK(chosen <= 1.07 * group.best_us(position, rows));             // kLeastGain, and what is believed of segments
          CHECK(chosen <= 1.002 * group.step_us(position, {double(rows)}));  // never much worse than doing nothing
          more += choice.cuts.size() > 1 && chosen < group.best_us(position, rows);
        }
  CHECK(more > 50);
}

TEST_CASE("what is predicted to gain nothing is not cut, and what is cut is predicted to gain") {
  std::mt19937 random(7);
  int cut = 0, whole = 0;
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
    (choice.cuts.empty() ? whole : cut)++;
    if (choice.cuts.empty()) {
      CHECK(choice.share == 1.0);
      continue;
    }
    CHECK(choice.cuts.size() < plan::kMostParts);
    for (const double part : parts_of(choice.cuts, rows)) CHECK(part >= OverlapPolicy::kLeastPart);
    CHECK(choice.share <= 1 - OverlapPolicy::kFirstGain);
    CHECK(policy.predict_us(runs, choice.cuts) <= (1 - OverlapPolicy::kFirstGain) * policy.predict_us(runs, {}));
  }
  CHECK(cut > 300);
  CHECK(whole > 300);
}

TEST_CASE("cuts leave each part its share of the compute, with attention that grows") {
  for (double position_us : {0.0, 0.02, 0.1, 0.5})
    for (std::uint32_t rows : {64U, 512U, 2048U})
      for (std::size_t parts : {2U, 3U, 4U})
        for (double growth : {0.7, 1.0, 1.5}) {
          Group group;
          group.base_us = 16 * group.row_us;  // as the policy believes before it has seen a step
          group.position_us = position_us;
          OverlapPolicy policy = policy_of(group);
          for (int i = 0; i < 60; ++i) {
            const std::uint32_t position = i % 6 * 700, seen = 100 + i % 5 * 300;
            policy.observe(chunk(position, seen), {}, group.times(position, {double(seen)}));
          }
          const std::vector<std::uint32_t> cuts = policy.cuts_of(chunk(0, rows), parts, growth, 1);
          CAPTURE(position_us, rows, parts, growth, cuts);
          REQUIRE(cuts.size() == parts - 1);
          const auto cost = [&](double first, double count) {  // without what a part costs whatever its rows
            return group.row_us * count + group.position_us * count * (first + count / 2) * group.reduces / 2 / (group.reduces / 2.0);
          };
          double first = 0, before = 0;
          for (const double part : parts_of(cuts, rows)) {
            const double own = cost(first, part), row = cost(first, part + 1) - own;
            if (before > 0) CHECK(std::abs(own - growth * before) <= 2.5 * row + 0.03 * own);
            before = own;
            first += part;
          }
        }
  CHECK(policy_of(Group{}).cuts_of(chunk(0, 2), 4, 1, 1) == std::vector<std::uint32_t>{1});
  CHECK(policy_of(Group{}).cuts_of(chunk(0, 1), 4, 1, 1).empty());
}

TEST_CASE("streams alone are never cut, and count in front of a chunk") {
  Group group;
  group.wire_us = group.row_us;
  const OverlapPolicy policy = policy_of(group);
  CHECK(policy.choose(streams(200, 500)).cuts.empty());
  Runs runs = streams(40, 3000);
  runs.push_back({1, 0, 200, false});
  const OverlapChoice choice = policy.choose(runs);
  REQUIRE(!choice.cuts.empty());
  CHECK(choice.cuts.front() > 40);
  CHECK(choice.cuts.back() < 208);
}

TEST_CASE("a fast link, one rank, a group that measured nothing, and `off`: never cut") {
  Group slow, fast;
  slow.wire_us = slow.row_us;
  fast.wire_us = 0.02 * fast.row_us;
  fast.reduce_us = 5;
  CHECK(policy_of(slow).choose(chunk(0, 512)).cuts.size() > 0);
  CHECK(policy_of(fast).choose(chunk(0, 2048)).cuts.empty());
  CHECK(policy_of(slow, OverlapMode::kOff).choose(chunk(0, 512)).cuts.empty());
  OverlapPolicy alone(OverlapMode::kAlways);
  alone.enter_group(1, slow.speed());
  CHECK(alone.choose(chunk(0, 512)).cuts.empty());
  OverlapPolicy unmeasured(OverlapMode::kAuto);
  unmeasured.enter_group(2, {});
  unmeasured.observe(chunk(0, 512), {}, {1000, 1000});
  CHECK(unmeasured.choose(chunk(0, 512)).cuts.empty());
}

TEST_CASE("`always` cuts whatever has two rows, measured or not") {
  OverlapPolicy policy(OverlapMode::kAlways);
  policy.enter_group(2, {});
  CHECK(policy.choose(chunk(0, 1)).cuts.empty());
  CHECK(policy.choose(chunk(0, 2)).cuts == std::vector<std::uint32_t>{1});
  CHECK(policy.choose(streams(2, 100)).cuts == std::vector<std::uint32_t>{1});
  REQUIRE(policy.choose(chunk(0, 100)).cuts.size() == 1);
  const std::uint32_t middle = policy.choose(chunk(0, 100)).cuts[0];
  CHECK(middle >= 50);
  CHECK(middle < 60);
  CHECK(policy.choose(chunk(0, 100)).share == 1.0);
}

TEST_CASE("a small gain is taken once results have told that it is there") {
  Group group;
  group.base_us = 16 * group.row_us;
  group.wire_us = 0.09 * group.row_us;
  group.reduce_us = 5;
  group.part_us = 4 * group.row_us;
  OverlapPolicy policy = policy_of(group);
  CHECK(policy.choose(chunk(0, 2048)).cuts.empty());
  for (int i = 0; i < OverlapPolicy::kFirstSteps - 1; ++i)
    policy.observe(streams(3, 100), {}, {2000, group.busy_wire_us({3})});  // says nothing of prompts
  CHECK(policy.choose(chunk(0, 2048)).cuts.empty());
  for (int i = 0; i < OverlapPolicy::kFirstSteps; ++i) run(policy, group, 0, 2048);
  CHECK(!policy.choose(chunk(0, 2048)).cuts.empty());
  policy.enter_group(2, group.speed());
  CHECK(policy.choose(chunk(0, 2048)).cuts.empty());
}

TEST_CASE("a wire that is slower than it was at the start shows where rows are cut, too") {
  std::mt19937 random(5);
  for (double ratio : {0.5, 0.9, 1.5}) {
    Group told, real;
    real.wire_us = ratio * real.row_us;
    told.wire_us = 0.4 * real.wire_us;
    OverlapPolicy policy = policy_of(told);
    for (int i = 0; i < 30; ++i) {
      const Runs runs = chunk(i % 4 * 512, 512);
      const std::vector<std::uint32_t> cuts = policy.choose(runs).cuts;
      policy.observe(runs, cuts, real.times(i % 4 * 512, parts_of(cuts, 512), (95 + random() % 11) / 100.0));
    }
    const std::vector<std::uint32_t> cuts = policy.choose(chunk(512, 512)).cuts;
    CAPTURE(ratio, cuts);
    CHECK(real.step_us(512, parts_of(cuts, 512)) <= 1.05 * real.best_us(512, 512));
  }
}

TEST_CASE("a peer that is late does not make the wire slow") {
  Group group;
  group.wire_us = 0.02 * group.row_us;
  group.reduce_us = 5;
  OverlapPolicy policy = policy_of(group);
  std::mt19937 random(5);
  for (int i = 0; i < 200; ++i) {
    OverlapPolicy::StepTimes times = group.times(0, {256, 256});
    times.wire_wait += times.busy * (random() % 100) / 2000;
    policy.observe(chunk(0, 512), std::vector<std::uint32_t>{256}, times);
  }
  CHECK(policy.choose(chunk(0, 512)).cuts.empty());
}

TEST_CASE("short prompts that a network takes in at once do not make it fast") {
  Group group;
  group.wire_us = 0.9 * group.row_us;
  OverlapPolicy policy = policy_of(group);
  for (int i = 0; i < 20; ++i) run(policy, group, 0, 512);
  const std::vector<std::uint32_t> cuts = policy.choose(chunk(0, 512)).cuts;
  for (int i = 0; i < 20; ++i) policy.observe(chunk(0, 32), {}, {group.busy_us(0, {32}), 100});
  const double before = group.step_us(0, parts_of(cuts, 512)), after = group.step_us(0, parts_of(policy.choose(chunk(0, 512)).cuts, 512));
  CHECK(after <= 1.01 * before);
}

TEST_CASE("a wire that became fast is seen where rows are cut all the time") {
  Group slow, fast;
  slow.wire_us = slow.row_us;
  fast.wire_us = 0.01 * fast.row_us;
  OverlapPolicy policy = policy_of(slow);
  for (int i = 0; i < 20; ++i) run(policy, slow, 0, 512);
  int steps = 0, whole = 0;
  for (; steps < 400 && whole < 20; ++steps) {
    whole += policy.choose(chunk(0, 512)).cuts.empty();
    run(policy, fast, 0, 512);
  }
  CHECK(steps < 20 + 3 * OverlapPolicy::kCutSteps);
}

TEST_CASE("results correct what was measured at the start") {
  Group told, real;
  told.wire_us = 0.01 * told.row_us;  // measured on an idle link
  real.wire_us = real.row_us;
  OverlapPolicy policy = policy_of(told);
  CHECK(policy.choose(chunk(0, 512)).cuts.empty());
  std::mt19937 random(3);
  int steps = 0;
  for (; steps < 400 && policy.choose(chunk(0, 512)).cuts.empty(); ++steps) run(policy, real, 0, 512, (95 + random() % 11) / 100.0);
  CHECK(steps < 100);
  for (steps = 0; steps < 400 && !policy.choose(chunk(0, 512)).cuts.empty(); ++steps)
    run(policy, told, 0, 512, (95 + random() % 11) / 100.0);
  CHECK(steps < 100);
}

TEST_CASE("numbers that no measurement gives are borne") {
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinite = std::numeric_limits<double>::infinity();
  for (double number : {nan, infinite, -infinite, -1.0, 0.0, 1e300})
    for (std::uint32_t reduces : {1U, 7U, 0xffffffffU}) {
      OverlapPolicy policy(OverlapMode::kAuto);
      policy.enter_group(2, {number, number, number, reduces, 0xffffffffU});
      const OverlapChoice choice = policy.choose(chunk(0, 512));
      for (const double part : parts_of(choice.cuts, 512)) CHECK(part >= OverlapPolicy::kLeastPart);
      CHECK(choice.share <= 1);
      CHECK(choice.share >= 0.3);
    }
  CHECK_THROWS(overlap_mode("sometimes"));
}

}  // namespace troupe::schedule
