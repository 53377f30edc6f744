// Scalar reference level, for every x86-64: what the other levels are tested against. Compiled with its own flags; see kernels/README.md.
#define TROUPE_ISA ref
#ifndef TROUPE_PLAIN
#define TROUPE_PLAIN
#endif
#include "kernels/cpu/shared/prelude.inl"

#include "kernels/cpu/ref/vector.inl"
#include "kernels/cpu/ref/weights.inl"
#include "kernels/cpu/shared/kernels.inl"
