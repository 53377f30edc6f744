// GroupSpeed: what a row of a long prompt costs on the ranks of a group and on the wire between them, measured when the ranks meet, on
// rows that mean nothing. From it the scheduler knows when overlap pays, and the group which codec does.
// Compute thread only; all ranks measure at the same time, since they exchange bytes. Takes some 0.1 s.
#pragma once
#include "runtime/base/shard_place.h"
#include "runtime/collective/collective.h"
#include "runtime/model/model.h"

#include <cstdint>
#include <optional>

namespace troupe::exec {

/// All 0: not measured, or one rank.
struct GroupSpeed {
  double compute_ns = 0;         // a row, all layers of this rank
  double wire_ns = 0;            // a row, all reduces, in the epoch's codec
  double reduce_us = 0;          // of a reduce without rows: there and back
  std::uint32_t reduces = 0;     // of a step on this rank
  std::uint32_t row_hidden = 0;  // values of a row
};

/// Of a row of a long prompt, all layers of a rank, ns.
struct CodecCost {
  double compute_ns = 0;  // with encoding and decoding
  double wire_ns = 0;
};
/// int8 costs accuracy, so it must pay: it is chosen where a row is predicted to take 5 % less time with it than with bf16. The wire is
/// hidden behind the computation, as far as that lasts.
kernels::WireFormat choose_codec(const CodecCost& bf16, const CodecCost& int8);

struct MeasuredGroup {
  kernels::WireFormat format{};  // in force from now on
  GroupSpeed speed;              // of the slowest rank of the first stage; equal on all ranks
};
/// `format` absent: the ranks measure, and rank 0 decides. Writes K and V of a few blocks: before the first plan of an epoch. Throws
/// collective::Interrupted, PeerLost.
MeasuredGroup measure_group(model::Model& model, kernels::Backend& backend, kernels::KvCache& kv, const base::ShardPlace& place,
                            collective::Collective& collective, std::optional<kernels::WireFormat> format);

}  // namespace troupe::exec
