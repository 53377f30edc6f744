// The one visible list per family of ops, best level first, and the choice among its rows at run time.
#pragma once
#include "kernels/cpu/kernel_table.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::kernels::cpu {

/// Ascending: a level runs the kernels of the levels below it, but a machine may have kAvx512Vnni without kAvxVnni: what has a row for
/// kAvxVnni has one for kAvx512Vnni.
enum class Isa { kRef, kAvx2, kAvxVnni, kAvx512Vnni, kAvx512Bf16, kAmx };

std::string_view isa_name(Isa isa);
/// Every level there is, best first.
std::vector<Isa> all_isas();
/// What this machine can run, best first.
std::vector<Isa> available_isas();
/// `wanted`, else TROUPE_CPU_ISA, else the best. Throws std::invalid_argument if unknown or not available here.
Isa choose_isa(std::string_view wanted);

/// One row of a family's list.
template <typename Kernels>
struct ListRow {
  Isa isa;
  const Kernels& kernels;
};
/// The lists, best level first, each level at most once, the reference last.
std::span<const ListRow<MatmulKernels>> matmul_list();
std::span<const ListRow<BfloatKernels>> bfloat_list();
std::span<const ListRow<RowKernels>> row_list();
std::span<const ListRow<AttentionKernels>> attention_list();
std::span<const ListRow<LogitKernels>> logit_list();
std::span<const ListRow<WireKernels>> wire_list();

/// The kernels that serve a level: from each family's list the first row that is not above it.
struct KernelSet {
  Isa isa;
  const MatmulKernels& matmul;
  const BfloatKernels& bfloat;
  const RowKernels& rows;
  const AttentionKernels& attention;
  const LogitKernels& logits;
  const WireKernels& wire;
  const RoofKernels& roof;
};
KernelSet kernels_for(Isa isa);

}  // namespace troupe::kernels::cpu
