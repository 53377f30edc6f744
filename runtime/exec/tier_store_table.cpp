#include "runtime/exec/tier_store_table.h"

#include "runtime/exec/disk_store.h"
#include "runtime/exec/host_store.h"

namespace troupe::exec {
namespace {
constexpr TierStoreRow kRows[] = {
    {"host", HostStore::open, "a bounded pool of memory; gone with the process"},
    {"disk", DiskStore::open, "a bounded file in the cache folder; found again after a restart"},
};
}  // namespace

std::span<const TierStoreRow> tier_store_rows() { return kRows; }

}  // namespace troupe::exec
