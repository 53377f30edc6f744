// AVX2 level: x86-64-v3. Compiled with its own flags; see kernels/README.md.
#define TROUPE_ISA avx2
#include "kernels/cpu/shared/prelude.inl"

#include "kernels/cpu/avx2/vector.inl"
#include "kernels/cpu/avx2/weights.inl"
#include "kernels/cpu/shared/kernels.inl"
