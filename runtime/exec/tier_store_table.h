// The kinds of TierStore: one row each. The conformance suite runs over them.
#pragma once
#include "runtime/exec/tier_store.h"

#include <memory>
#include <span>
#include <string_view>

namespace troupe::exec {

struct TierStoreRow {
  std::string_view name;
  /// An Error where there is no memory, or where the folder cannot be used or another process uses the store; says what to do.
  Result<std::unique_ptr<TierStore>> (*open)(const StoreSpec& spec);
  std::string_view help;
};
std::span<const TierStoreRow> tier_store_rows();

}  // namespace troupe::exec
