// AVX-512 VNNI level: x86-64-v4 and avx512vnni. Compiled with its own flags; see kernels/README.md.
#define TROUPE_ISA avx512_vnni
#include "kernels/cpu/shared/prelude.inl"

#include "kernels/cpu/avx512_vnni/vector.inl"
#include "kernels/cpu/avx512_vnni/weights.inl"
#include "kernels/cpu/shared/kernels.inl"
