// Conformance of policies over the table; then what each of them promises.
#include "runtime/schedule/policy_table.h"

#include "messages/error_reasons.h"

#include <catch2/catch.hpp>

#include <random>
#include <set>
#include <string>

namespace troupe::schedule {
namespace {

std::vector<SequenceView> random_views(std::mt19937& random) {
  std::vector<SequenceView> views(12);
  for (std::size_t i = 0; i < views.size(); ++i) {
    SequenceView& view = views[i];
    view.arrival = i + 1;
    view.priority = static_cast<std::int32_t>(random() % 3) - 1;
    view.owner = Hash128{random() % 3, 0};
    view.tokens = random() % 500;
    view.expected_hit = random() % 4 * 32;
    view.waited_ms = random() % 3000;
  }
  return views;
}

template <class Before>
void check_strict_weak_order(const std::vector<SequenceView>& views, Before before) {
  const auto equal = [&](const SequenceView& a, const SequenceView& b) { return !before(a, b) && !before(b, a); };
  for (const auto& a : views) {
    CHECK_FALSE(before(a, a));
    for (const auto& b : views) {
      CHECK_FALSE((before(a, b) && before(b, a)));
      if (a.arrival != b.arrival) CHECK_FALSE(equal(a, b));  // a decision never depends on the order of a list
      for (const auto& c : views)
        if (before(a, b) && before(b, c)) CHECK(before(a, c));
    }
  }
}

SequenceView view(std::uint64_t arrival) {
  SequenceView made;
  made.arrival = arrival;
  return made;
}

}  // namespace

TEST_CASE("every policy gives total orders") {
  std::mt19937 random(4);
  std::set<std::string> names;
  for (const PolicyRow& row : policy_table()) {
    INFO(row.name);
    CHECK(names.insert(std::string(row.name)).second);
    CHECK_FALSE(row.help.empty());
    const auto policy = row.make();
    for (int round = 0; round < 5; ++round) {
      const auto views = random_views(random);
      for (const auto& served : views) policy->on_service(served.owner, served.tokens);
      check_strict_weak_order(views, [&](const auto& a, const auto& b) { return policy->starts_before(a, b); });
      check_strict_weak_order(views, [&](const auto& a, const auto& b) { return policy->preempted_before(a, b); });
    }
  }
}

TEST_CASE("an unknown policy is an error that names the known ones") {
  const auto policy = make_policy("round_robin");
  REQUIRE_FALSE(policy.ok());
  CHECK(policy.error().reason == ErrorReason::kBadConfig);
  for (const PolicyRow& row : policy_table()) CHECK(policy.error().client_text.find(row.name) != std::string::npos);
}

TEST_CASE("fcfs: first come, first served; last come, first preempted") {
  const auto policy = make_fcfs_policy();
  CHECK(policy->starts_before(view(1), view(2)));
  CHECK(policy->preempted_before(view(2), view(1)));
}

TEST_CASE("priority: the urgent start first and are preempted last") {
  const auto policy = make_priority_policy();
  SequenceView urgent = view(9);
  urgent.priority = 5;
  CHECK(policy->starts_before(urgent, view(1)));
  CHECK(policy->preempted_before(view(1), urgent));
}

TEST_CASE("longest prefix: more cached first, but patience is bounded") {
  const auto policy = make_longest_prefix_policy();
  SequenceView cached = view(9), patient = view(3);
  cached.expected_hit = 320;
  CHECK(policy->wants_expected_hit());
  CHECK(policy->starts_before(cached, patient));
  patient.waited_ms = 2000;
  CHECK(policy->starts_before(patient, cached));
}

TEST_CASE("fair: the least served owner first, with bounded credit") {
  const auto policy = make_fair_policy();
  SequenceView heavy = view(1), light = view(2), newcomer = view(3);
  heavy.owner = {1, 0};
  light.owner = {2, 0};
  newcomer.owner = {3, 0};
  policy->on_service(heavy.owner, 1000);
  policy->on_service(light.owner, 100);
  CHECK(policy->starts_before(light, heavy));
  CHECK(policy->preempted_before(heavy, light));
  CHECK(policy->starts_before(newcomer, light));
  for (int i = 0; i < 100; ++i) policy->on_service(heavy.owner, 10000);
  // Both are far behind by now, and count as equally far.
  CHECK(policy->starts_before(light, newcomer));
  policy->on_service(newcomer.owner, 1);
  CHECK(policy->starts_before(light, newcomer));
}

}  // namespace troupe::schedule
