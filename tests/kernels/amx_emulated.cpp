// The AMX level's kernels on an emulated tile unit and plain lanes: what amx_test.cpp runs on every machine.
#define TROUPE_ISA amx_emulated
#define TROUPE_TILE_UNIT true
#ifndef TROUPE_PLAIN
#define TROUPE_PLAIN
#endif
#include "kernels/cpu/shared/prelude.inl"

#include "kernels/cpu/ref/vector.inl"
#include "kernels/cpu/shared/math.inl"
#include "kernels/cpu/shared/matmul_int8.inl"
#include "tests/kernels/emulated_tile_unit.inl"
#include "kernels/cpu/amx/tiles.inl"

namespace troupe::kernels::cpu::TROUPE_ISA {

extern void (*const multiply)(const Int8Product&, std::size_t, std::size_t, std::size_t, std::size_t);
void (*const multiply)(const Int8Product&, std::size_t, std::size_t, std::size_t, std::size_t) = multiply_on_tiles;

}  // namespace troupe::kernels::cpu::TROUPE_ISA
