// What every one-ISA file starts with. A one-ISA file defines TROUPE_ISA (its namespace), then includes, in this order: this
// file, its own vector.inl, and the shared kernels. It includes no other header: an inline function of the standard library
// compiled for a wide ISA could be linked into code that runs everywhere. All but the tables sits in an anonymous namespace.
#include "kernels/cpu/kernel_table.h"

#include <immintrin.h>

#include <cstring>

#ifndef TROUPE_TILE_UNIT
#define TROUPE_TILE_UNIT false  // true: int8 products of many rows go to sixteen_rows() of amx/tiles.inl
#endif

#ifdef TROUPE_PLAIN  // for the reference and for sanitizers: nothing need stay in registers, and it compiles in a fraction of the time
#define TROUPE_INLINE static inline
#define TROUPE_MEMBER inline
#define TROUPE_UNROLL
#else
#define TROUPE_INLINE static inline __attribute__((always_inline))
#define TROUPE_MEMBER inline __attribute__((always_inline))
// g++ keeps an array of accumulators in registers only if every loop that touches it is unrolled.
#define TROUPE_UNROLL _Pragma("GCC unroll 16")
#endif
#define TROUPE_NOINLINE __attribute__((noinline))
