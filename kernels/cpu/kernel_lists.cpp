#include "kernels/cpu/kernel_lists.h"

#include <algorithm>
#include <cpuid.h>
#include <cstdlib>
#include <stdexcept>

namespace troupe::kernels::cpu {

// Defined by the one-ISA files (shared/kernels.inl).
namespace ref {
extern const MatmulKernels matmul;
extern const RowKernels rows;
extern const AttentionKernels attention;
extern const LogitKernels logits;
extern const RoofKernels roof;
}  // namespace ref
namespace avx2 {
extern const MatmulKernels matmul;
extern const RowKernels rows;
extern const AttentionKernels attention;
extern const LogitKernels logits;
extern const RoofKernels roof;
}  // namespace avx2
namespace avx512_vnni {
extern const MatmulKernels matmul;
extern const RowKernels rows;
extern const AttentionKernels attention;
extern const LogitKernels logits;
extern const RoofKernels roof;
}  // namespace avx512_vnni

namespace {

constexpr ListRow<MatmulKernels> kMatmul[] = {
    {Isa::kAvx512Vnni, avx512_vnni::matmul},
    {Isa::kAvx2, avx2::matmul},
    {Isa::kRef, ref::matmul},
};
constexpr ListRow<RowKernels> kRows[] = {
    {Isa::kAvx512Vnni, avx512_vnni::rows},
    {Isa::kAvx2, avx2::rows},
    {Isa::kRef, ref::rows},
};
constexpr ListRow<AttentionKernels> kAttention[] = {
    {Isa::kAvx512Vnni, avx512_vnni::attention},
    {Isa::kAvx2, avx2::attention},
    {Isa::kRef, ref::attention},
};
constexpr ListRow<LogitKernels> kLogits[] = {
    {Isa::kAvx512Vnni, avx512_vnni::logits},
    {Isa::kAvx2, avx2::logits},
    {Isa::kRef, ref::logits},
};
constexpr ListRow<RoofKernels> kRoof[] = {
    {Isa::kAvx512Vnni, avx512_vnni::roof},
    {Isa::kAvx2, avx2::roof},
    {Isa::kRef, ref::roof},
};

template <typename Kernels, std::size_t kCount>
const Kernels& best(const ListRow<Kernels> (&list)[kCount], Isa isa) {
  for (const auto& row : list)
    if (row.isa <= isa) return row.kernels;
  return list[kCount - 1].kernels;
}

constexpr struct {
  Isa isa;
  std::string_view name;
} kNames[] = {{Isa::kAvx512Vnni, "avx512_vnni"}, {Isa::kAvx2, "avx2"}, {Isa::kRef, "ref"}};

/// By hand, as clang 14 has no names for them. (That the system saves ymm registers, "avx2" says.)
bool has_f16c_and_lzcnt() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  const bool f16c = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
  return f16c && __get_cpuid(0x80000001U, &a, &b, &c, &d) && (c & bit_LZCNT);
}

bool runs_here(Isa isa) {
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
                    __builtin_cpu_supports("bmi2") && has_f16c_and_lzcnt();
  switch (isa) {
    case Isa::kRef: return true;
    case Isa::kAvx2: return avx2;
    case Isa::kAvx512Vnni:
      return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
  }
  return false;
}

}  // namespace

std::string_view isa_name(Isa isa) {
  for (const auto& row : kNames)
    if (row.isa == isa) return row.name;
  return "unknown";
}

std::vector<Isa> available_isas() {
  __builtin_cpu_init();
  std::vector<Isa> found;
  for (const auto& row : kNames)
    if (runs_here(row.isa)) found.push_back(row.isa);
  return found;
}

std::vector<Isa> all_isas() {
  std::vector<Isa> all;
  for (const auto& row : kNames) all.push_back(row.isa);
  return all;
}

std::span<const ListRow<MatmulKernels>> matmul_list() { return kMatmul; }
std::span<const ListRow<RowKernels>> row_list() { return kRows; }
std::span<const ListRow<AttentionKernels>> attention_list() { return kAttention; }
std::span<const ListRow<LogitKernels>> logit_list() { return kLogits; }

Isa choose_isa(std::string_view wanted) {
  const std::vector<Isa> available = available_isas();
  if (wanted.empty())
    if (const char* forced = std::getenv("TROUPE_CPU_ISA")) wanted = forced;
  if (wanted.empty()) return available.front();
  for (const auto& row : kNames) {
    if (row.name != wanted) continue;
    if (std::find(available.begin(), available.end(), row.isa) == available.end())
      throw std::invalid_argument("this machine cannot run the instruction set '" + std::string(wanted) + "'");
    return row.isa;
  }
  throw std::invalid_argument("unknown instruction set '" + std::string(wanted.substr(0, 40)) + "': ref, avx2 or avx512_vnni");
}

KernelSet kernels_for(Isa isa) { return {isa, best(kMatmul, isa), best(kRows, isa), best(kAttention, isa), best(kLogits, isa), best(kRoof, isa)}; }

}  // namespace troupe::kernels::cpu
