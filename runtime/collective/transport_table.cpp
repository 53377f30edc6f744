#include "runtime/collective/transport_table.h"

#include "messages/error_reasons.h"
#include "runtime/collective/loopback_transport.h"
#include "runtime/collective/ucx_transport.h"

#include <string>

namespace troupe::collective {
namespace {
constexpr TransportRow kRows[] = {
    {"loopback", "ranks that are threads of one process", open_loopback_port},
    {"ucx", "ranks that are processes: shared memory on one host, TCP over a named interface", open_ucx_port},
};
}  // namespace

std::span<const TransportRow> transports() { return kRows; }

Result<std::unique_ptr<Port>> open_port(const TransportSpec& spec) {
  std::string known;
  for (const TransportRow& row : kRows) {
    if (row.name == spec.name) return row.open(spec);
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  return make_error(ErrorClass::kInvalidRequest, ErrorReason::kBadConfig, "there is no transport '" + spec.name + "'; known: " + known,
                    "transport");
}

}  // namespace troupe::collective
