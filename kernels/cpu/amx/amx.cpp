// AMX level: int8 products of 16 rows and more on the tile unit; everything else as avx512_vnni. Compiled with its own flags; see
// kernels/README.md.
#define TROUPE_ISA amx
#define TROUPE_TILE_UNIT true
#include "kernels/cpu/shared/prelude.inl"

#include "kernels/cpu/avx512_vnni/vector.inl"
#include "kernels/cpu/shared/math.inl"
#include "kernels/cpu/shared/matmul_int8.inl"
#include "kernels/cpu/amx/tile_unit.inl"
#include "kernels/cpu/amx/tiles.inl"

namespace troupe::kernels::cpu::avx512_vnni {
extern const MatmulKernels matmul;
}

namespace troupe::kernels::cpu::TROUPE_ISA {
namespace {

void quantize_row(const float* x, int cols, const QuantizedRows& to, std::size_t row) {
  avx512_vnni::matmul.quantize_row(x, cols, to, row);
}
void multiply_float(const FloatProduct& p, std::size_t row0, std::size_t row1, std::size_t panel0, std::size_t panel1) {
  avx512_vnni::matmul.multiply_float(p, row0, row1, panel0, panel1);
}

}  // namespace

extern const MatmulKernels matmul;
const MatmulKernels matmul = {quantize_row, multiply_on_tiles, multiply_float};

}  // namespace troupe::kernels::cpu::TROUPE_ISA
