// All shared kernels, and the tables of this level: the only names that other files can see.
#include "kernels/cpu/shared/math.inl"
#include "kernels/cpu/shared/quantize.inl"
#include "kernels/cpu/shared/matmul_int8.inl"
#include "kernels/cpu/shared/float_panels.inl"
#include "kernels/cpu/shared/widen.inl"
#include "kernels/cpu/shared/matmul_float.inl"
#include "kernels/cpu/shared/matmul_bf16_by_fma.inl"
#include "kernels/cpu/shared/rows.inl"
#include "kernels/cpu/shared/attention.inl"
#include "kernels/cpu/shared/attention_int8.inl"
#include "kernels/cpu/shared/attention_float.inl"
#include "kernels/cpu/shared/logits.inl"
#include "kernels/cpu/shared/wire.inl"
#include "kernels/cpu/shared/roof.inl"

namespace troupe::kernels::cpu::TROUPE_ISA {

extern const MatmulKernels matmul;
extern const BfloatKernels bfloat;
extern const RowKernels rows;
extern const AttentionKernels attention;
extern const LogitKernels logits;
extern const WireKernels wire;
extern const RoofKernels roof;

const MatmulKernels matmul = {quantize_row, multiply_int8, multiply_float};
const BfloatKernels bfloat = {round_row, multiply_bfloat};
const RowKernels rows = {rms_norm, swiglu, add_row, rope, spread, quantization_error};
const AttentionKernels attention = {store_int8,          store_f16, store_f32, quantize_query, attend_int8, attend_float<std::uint16_t>,
                                    attend_float<float>, fold_row,  finish};
const LogitKernels logits = {scan_logits, find_logit, exp_sums, collect_logits};
const WireKernels wire = {{encode_floats, decode_sum<WireFloats>},
                          {encode_bfloats, decode_sum<WireBfloats>},
                          {encode_groups<128, 8>, decode_sum<WireGroups<128, 8>>},
                          {encode_groups<32, 8>, decode_sum<WireGroups<32, 8>>},
                          {encode_groups<32, 6>, decode_sum<WireGroups<32, 6>>},
                          {encode_groups<32, 4>, decode_sum<WireGroups<32, 4>>}};
const RoofKernels roof = {roof_bytes, roof_nibbles, roof_fp32, roof_bf16, roof_read};

}  // namespace troupe::kernels::cpu::TROUPE_ISA
