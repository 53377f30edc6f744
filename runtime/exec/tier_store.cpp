#include "runtime/exec/tier_store.h"

#include "messages/error_reasons.h"
#include "runtime/base/hash.h"

namespace troupe::exec {
namespace {
constexpr std::uint32_t kMostBlocks = 1U << 30;                    // ids are 32 bits, with room for marks
constexpr std::uint64_t kMostBlockBytes = std::uint64_t{1} << 30;  // so that no offset overflows
}  // namespace

Hash128 store_domain(const StoreOwner& owner) {
  return base::Hasher()
      .add(std::string_view("stored blocks"))
      .add(owner.content)
      .add(owner.numerics)
      .add(std::string_view(owner.kv_layout))
      .add(owner.rank)
      .add(owner.ranks)
      .finish();
}

Status check_store(const StoreSpec& spec) {
  const auto bad = [](const char* field, std::uint64_t value, std::uint64_t most) -> Status {
    return make_error(
        ErrorClass::kInvalidRequest, ErrorReason::kBadConfig,
        std::string("store of K/V blocks: ") + field + " is " + std::to_string(value) + "; it must be from 1 to " + std::to_string(most),
        field);
  };
  if (spec.block_bytes == 0 || spec.block_bytes > kMostBlockBytes) return bad("block_bytes", spec.block_bytes, kMostBlockBytes);
  if (spec.blocks == 0 || spec.blocks > kMostBlocks) return bad("blocks", spec.blocks, kMostBlocks);
  return ok_status();
}

}  // namespace troupe::exec
