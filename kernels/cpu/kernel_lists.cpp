#include "kernels/cpu/kernel_lists.h"

#include <algorithm>
#include <bit>
#include <cpuid.h>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <sys/syscall.h>
#include <unistd.h>

namespace troupe::kernels::cpu {

// Defined by the one-ISA files (shared/kernels.inl).
namespace ref {
extern const MatmulKernels matmul;
extern const BfloatKernels bfloat;
extern const RowKernels rows;
extern const AttentionKernels attention;
extern const LogitKernels logits;
extern const WireKernels wire;
extern const RoofKernels roof;
}  // namespace ref
namespace avx2 {
extern const MatmulKernels matmul;
extern const BfloatKernels bfloat;
extern const RowKernels rows;
extern const AttentionKernels attention;
extern const LogitKernels logits;
extern const WireKernels wire;
extern const RoofKernels roof;
}  // namespace avx2
namespace avx_vnni {
extern const MatmulKernels matmul;
extern const AttentionKernels attention;
extern const RoofKernels roof;
}  // namespace avx_vnni
namespace avx512_vnni {
extern const MatmulKernels matmul;
extern const BfloatKernels bfloat;
extern const RowKernels rows;
extern const AttentionKernels attention;
extern const LogitKernels logits;
extern const WireKernels wire;
extern const RoofKernels roof;
}  // namespace avx512_vnni
namespace avx512_bf16 {
extern const BfloatKernels bfloat;
extern const RoofKernels roof;
}  // namespace avx512_bf16
namespace amx {
extern const MatmulKernels matmul;
}  // namespace amx

namespace {

constexpr ListRow<MatmulKernels> kMatmul[] = {
    {Isa::kAmx, amx::matmul}, {Isa::kAvx512Vnni, avx512_vnni::matmul}, {Isa::kAvxVnni, avx_vnni::matmul}, {Isa::kAvx2, avx2::matmul},
    {Isa::kRef, ref::matmul},
};
constexpr ListRow<BfloatKernels> kBfloat[] = {
    {Isa::kAmx, avx512_vnni::bfloat},  // Intel's: see available_isas()
    {Isa::kAvx512Bf16, avx512_bf16::bfloat}, {Isa::kAvx512Vnni, avx512_vnni::bfloat}, {Isa::kAvx2, avx2::bfloat}, {Isa::kRef, ref::bfloat},
};
constexpr ListRow<RowKernels> kRows[] = {
    {Isa::kAvx512Vnni, avx512_vnni::rows},
    {Isa::kAvx2, avx2::rows},
    {Isa::kRef, ref::rows},
};
constexpr ListRow<AttentionKernels> kAttention[] = {
    {Isa::kAvx512Vnni, avx512_vnni::attention},
    {Isa::kAvxVnni, avx_vnni::attention},
    {Isa::kAvx2, avx2::attention},
    {Isa::kRef, ref::attention},
};
constexpr ListRow<LogitKernels> kLogits[] = {
    {Isa::kAvx512Vnni, avx512_vnni::logits},
    {Isa::kAvx2, avx2::logits},
    {Isa::kRef, ref::logits},
};
constexpr ListRow<WireKernels> kWire[] = {
    {Isa::kAvx512Vnni, avx512_vnni::wire},
    {Isa::kAvx2, avx2::wire},
    {Isa::kRef, ref::wire},
};
constexpr ListRow<RoofKernels> kRoof[] = {
    {Isa::kAvx512Bf16, avx512_bf16::roof},
    {Isa::kAvx512Vnni, avx512_vnni::roof},
    {Isa::kAvxVnni, avx_vnni::roof},
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
} kNames[] = {
    {Isa::kAmx, "amx"},
    {Isa::kAvx512Bf16, "avx512_bf16"},
    {Isa::kAvx512Vnni, "avx512_vnni"},
    {Isa::kAvxVnni, "avx_vnni"},
    {Isa::kAvx2, "avx2"},
    {Isa::kRef, "ref"},
};

/// Whether vdpbf16ps of this machine does what the reference does, which its documentation does not promise for every maker: the order
/// of a pair, rounding behind each product, denormals. Half of the products here are near the smallest normal number.
bool adds_bfloats_as_written() {
  constexpr int kInputs = 64, kRowsTried = 8;
  std::uint32_t state = 1;
  const auto number = [&](unsigned lowest_exponent) {
    state = state * 1664525U + 1013904223U;
    return (state & 0x80000000U) | (lowest_exponent + (state >> 20) % 13U) << 23 | (state & 0x007f0000U);
  };
  std::vector<std::uint32_t> pairs(kInputs / 2 * kPanelColumns);  // a bf16 panel
  for (std::uint32_t& pair : pairs) pair = number(58) | number(58) >> 16;
  std::vector<float> x(kInputs), rounded(kInputs), sums(kPanelColumns), expected(kPanelColumns);
  for (int row = 0; row < kRowsTried; ++row) {
    for (float& value : x) value = std::bit_cast<float>(number(row % 2 ? 58 : 180));
    const auto multiply = [&](const BfloatKernels& kernels, std::vector<float>& to) {
      kernels.round_row(x.data(), kInputs, rounded.data());
      const auto* panel = reinterpret_cast<const std::uint8_t*>(pairs.data());
      kernels.multiply(
          {PanelFormat::kBF16, panel, pairs.size() * 4, kInputs, kPanelColumns, rounded.data(), kInputs, to.data(), kPanelColumns}, 0, 1, 0,
          1);
    };
    multiply(avx512_bf16::bfloat, sums);
    multiply(ref::bfloat, expected);
    if (std::memcmp(sums.data(), expected.data(), kPanelColumns * sizeof(float)) != 0) return false;
  }
  return true;
}

/// By hand, for what clang 14 has no names. (That the system saves ymm and zmm registers, "avx2" and "avx512f" say.)
struct Cpuid {
  unsigned a = 0, b = 0, c = 0, d = 0;
  explicit Cpuid(unsigned leaf, unsigned part = 0) { __get_cpuid_count(leaf, part, &a, &b, &c, &d); }
};
bool has_f16c_and_lzcnt() { return (Cpuid(1).c & bit_F16C) != 0 && (Cpuid(0x80000001U).c & bit_LZCNT) != 0; }
bool has_avx_vnni() { return (Cpuid(7, 1).a & 1U << 4) != 0; }
bool has_avx512_bf16() { return (Cpuid(7, 1).a & 1U << 5) != 0; }
/// The unit is there, and the system lets this process use it: its registers are large, so that a process must ask for them.
bool may_use_tiles() {
  constexpr unsigned kTile = 1U << 24, kInt8 = 1U << 25;
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return (Cpuid(7).d & (kTile | kInt8)) == (kTile | kInt8) && syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

bool runs_here(Isa isa) {
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
                    __builtin_cpu_supports("bmi2") && has_f16c_and_lzcnt();
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512vnni");
  switch (isa) {
    case Isa::kRef: return true;
    case Isa::kAvx2: return avx2;
    case Isa::kAvxVnni: return avx2 && has_avx_vnni();
    case Isa::kAvx512Vnni: return avx512;
    case Isa::kAvx512Bf16: {
      static const bool bf16 = avx512 && has_avx512_bf16() && adds_bfloats_as_written();
      return bf16;
    }
    case Isa::kAmx: {
      static const bool tiles = avx512 && may_use_tiles();
      return tiles;
    }
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
  // Best first: on Intel a vdpbf16ps takes as long as four fmas, for the work of two (measured on Sapphire Rapids); on AMD, one.
  const auto bf16 = std::find(found.begin(), found.end(), Isa::kAvx512Bf16);
  if (__builtin_cpu_is("intel") && bf16 != found.end())
    std::rotate(bf16, bf16 + 1, std::find(found.begin(), found.end(), Isa::kAvx512Vnni) + 1);
  return found;
}

std::vector<Isa> all_isas() {
  std::vector<Isa> all;
  for (const auto& row : kNames) all.push_back(row.isa);
  return all;
}

std::span<const ListRow<MatmulKernels>> matmul_list() { return kMatmul; }
std::span<const ListRow<BfloatKernels>> bfloat_list() { return kBfloat; }
std::span<const ListRow<RowKernels>> row_list() { return kRows; }
std::span<const ListRow<AttentionKernels>> attention_list() { return kAttention; }
std::span<const ListRow<LogitKernels>> logit_list() { return kLogits; }
std::span<const ListRow<WireKernels>> wire_list() { return kWire; }

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
  std::string known;
  for (const auto& row : kNames) known += (known.empty() ? "" : ", ") + std::string(row.name);
  throw std::invalid_argument("unknown instruction set '" + std::string(wanted.substr(0, 40)) + "', known are: " + known);
}

KernelSet kernels_for(Isa isa) {
  return {isa,
          best(kMatmul, isa),
          best(kBfloat, isa),
          best(kRows, isa),
          best(kAttention, isa),
          best(kLogits, isa),
          best(kWire, isa),
          best(kRoof, isa)};
}

}  // namespace troupe::kernels::cpu
