#include "runtime/schedule/policy_table.h"

#include "messages/error_reasons.h"

#include <array>
#include <string>

namespace troupe::schedule {
namespace {
constexpr std::array kPolicies{
    PolicyRow{"fcfs", make_fcfs_policy, "first come, first served; the latest is preempted"},
    PolicyRow{"priority", make_priority_policy, "highest priority first, then first come"},
    PolicyRow{"longest_prefix", make_longest_prefix_policy, "longest cached prefix first; who waited 2 s goes first"},
    PolicyRow{"fair", make_fair_policy, "the owner with the least computed tokens first"},
};
}  // namespace

std::span<const PolicyRow> policy_table() { return kPolicies; }

Result<std::unique_ptr<SchedulingPolicy>> make_policy(std::string_view name) {
  std::string known;
  for (const PolicyRow& row : kPolicies) {
    if (row.name == name) return row.make();
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  return make_error(ErrorClass::kInvalidRequest, ErrorReason::kBadConfig,
                    "unknown scheduling policy '" + std::string(name) + "'; known: " + known, "policy");
}

}  // namespace troupe::schedule
