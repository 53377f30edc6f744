// AVX-512 BF16 level: x86-64-v4, avx512vnni and avx512bf16; products of bf16 only. Compiled with its own flags; see kernels/README.md.
#define TROUPE_ISA avx512_bf16
#include "kernels/cpu/shared/prelude.inl"

#include "kernels/cpu/avx512_vnni/vector.inl"
#include "kernels/cpu/avx512_vnni/weights.inl"
#include "kernels/cpu/shared/math.inl"
#include "kernels/cpu/shared/float_panels.inl"
#include "kernels/cpu/shared/widen.inl"
#include "kernels/cpu/avx512_bf16/matmul_bf16.inl"
#include "kernels/cpu/shared/roof.inl"

namespace troupe::kernels::cpu::TROUPE_ISA {

extern const BfloatKernels bfloat;
extern const RoofKernels roof;

const BfloatKernels bfloat = {round_row, multiply_bfloat};
const RoofKernels roof = {roof_bytes, roof_nibbles, roof_fp32, roof_bf16, roof_read};

}  // namespace troupe::kernels::cpu::TROUPE_ISA
