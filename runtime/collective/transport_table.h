// The transports there are: one row each (name, help, factory).
#pragma once
#include "runtime/collective/transport.h"

#include <memory>
#include <span>
#include <string_view>

namespace troupe::collective {

struct TransportRow {
  std::string_view name;
  std::string_view help;
  Result<std::unique_ptr<Port>> (*open)(const TransportSpec& spec);
};
std::span<const TransportRow> transports();
/// An Error that names the known ones, or says what the spec lacks.
Result<std::unique_ptr<Port>> open_port(const TransportSpec& spec);

}  // namespace troupe::collective
