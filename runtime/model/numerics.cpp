// The numerics id: what must be equal for equal tokens.
#include "runtime/base/hash.h"
#include "runtime/model/model.h"

namespace troupe::model {
namespace {

/// Of the arithmetic in kernels/README.md. Raise it with every change that may alter a bit of a result.
constexpr std::uint64_t kSpecRevision = 1;

}  // namespace

Hash128 numerics_id(const Hash128& content, kernels::WeightFormat weights, kernels::Activations activations, kernels::KvFormat kv) {
  // The ISA is no part of it: all levels give the same bits. With more ranks or a codec their fields change from these.
  constexpr std::uint64_t kTensorRanks = 1, kStages = 1;
  base::Hasher hasher;
  hasher.add("troupe numerics").add(content).add("cpu").add(kSpecRevision);
  hasher.add(static_cast<std::uint64_t>(activations)).add(static_cast<std::uint64_t>(kv));
  hasher.add(static_cast<std::uint64_t>(weights));
  hasher.add(kTensorRanks).add(kStages).add("no codec");
  return hasher.finish();
}

}  // namespace troupe::model
