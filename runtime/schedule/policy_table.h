// The table of scheduling policies. To add one: a file with a factory, and a row in policy_table.cpp; existing tests run over the table.
#pragma once
#include "messages/error.h"
#include "runtime/schedule/policy.h"

#include <memory>
#include <span>
#include <string_view>

namespace troupe::schedule {

struct PolicyRow {
  std::string_view name;
  std::unique_ptr<SchedulingPolicy> (*make)();
  std::string_view help;
};

std::span<const PolicyRow> policy_table();
/// kInvalidRequest naming the known policies if there is none of that name.
Result<std::unique_ptr<SchedulingPolicy>> make_policy(std::string_view name);

std::unique_ptr<SchedulingPolicy> make_fcfs_policy();
std::unique_ptr<SchedulingPolicy> make_priority_policy();
std::unique_ptr<SchedulingPolicy> make_longest_prefix_policy();
std::unique_ptr<SchedulingPolicy> make_fair_policy();

}  // namespace troupe::schedule
