// AVX-VNNI level: x86-64-v3 and 256-bit vpdpbusd (laptops and desktops since 2021). Compiled with its own flags; see kernels/README.md.
#define TROUPE_ISA avx_vnni
#include "kernels/cpu/shared/prelude.inl"

#include "kernels/cpu/avx_vnni/vector.inl"
#include "kernels/cpu/avx2/weights.inl"
#include "kernels/cpu/shared/kernels.inl"
