// The numerics id: what must be equal for equal tokens.
#include "runtime/base/hash.h"
#include "runtime/model/model.h"

namespace troupe::model {
namespace {

/// Of the arithmetic in kernels/README.md. Raise it with every change that may alter a bit of a result.
constexpr std::uint64_t kSpecRevision = 1;
/// Likewise of what happens between ranks; so what one rank has kept stays good.
constexpr std::uint64_t kGroupRevision = 2;

}  // namespace

Hash128 numerics_id(const Hash128& content, kernels::WeightFormat weights, kernels::Activations activations, kernels::KvFormat kv,
                    const base::ParallelShape& shape, std::string_view codec) {
  // The ISA is no part of it: all levels give the same bits. Nor is how the head is cut, or which rows overlap.
  base::Hasher hasher;
  hasher.add("troupe numerics").add(content).add("cpu").add(kSpecRevision);
  hasher.add(static_cast<std::uint64_t>(activations)).add(static_cast<std::uint64_t>(kv));
  hasher.add(static_cast<std::uint64_t>(weights));
  hasher.add(std::uint64_t{shape.tensor_ranks}).add(std::uint64_t{shape.stages});
  if (codec == "none")
    hasher.add("no codec");
  else
    hasher.add(codec).add(kGroupRevision);
  return hasher.finish();
}

}  // namespace troupe::model
