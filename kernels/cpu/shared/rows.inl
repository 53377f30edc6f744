// Element-wise ops and norms of one row. Element i lives in lane i % 16; rows of any length.
namespace troupe::kernels::cpu::TROUPE_ISA {
namespace {

/// Calls op(offset, lanes) for each vector of a row; lanes < 16 only in the last.
template <typename Op>
TROUPE_INLINE void for_vectors(int n, Op op) {
  for (int i = 0; i < n; i += 16) op(i, n - i < 16 ? n - i : 16);
}

/// Element i goes to sum (i / 16) % 4; (s0 + s1) + (s2 + s3), then the tree of lanes.
void rms_norm(const float* x, const float* weight, int n, float eps, float* y) {
  Floats sum[4] = {zero(), zero(), zero(), zero()};
  int i = 0;
  for (; i + 64 <= n; i += 64) TROUPE_UNROLL for (int j = 0; j < 4; ++j) {
      const Floats v = load(x + i + 16 * j);
      sum[j] = fma(v, v, sum[j]);
    }
  for (int j = 0; i < n; i += 16, ++j) {
    const Floats v = load(x + i, n - i);
    sum[j] = fma(v, v, sum[j]);
  }
  const float squares = sum_of_lanes(add(add(sum[0], sum[1]), add(sum[2], sum[3])));
  const Floats r = set(1.0F / __builtin_sqrtf(squares / static_cast<float>(n) + eps));
  for_vectors(n, [&](int at, int lanes) { store(y + at, mul(mul(load(x + at, lanes), r), load(weight + at, lanes)), lanes); });
}

void swiglu(const float* gate, const float* up, int n, float* y) {
  const Floats one = set(1.0F), most = set(125.0F), minus_log2e = set(-kLog2E);
  for_vectors(n, [&](int at, int lanes) {
    const Floats g = load(gate + at, lanes);
    const Floats e = exp2p(min(mul(minus_log2e, g), most));
    store(y + at, mul(div(g, add(one, e)), load(up + at, lanes)), lanes);
  });
}

void add_row(float* x, const float* addend, int n) {
  for_vectors(n, [&](int at, int lanes) { store(x + at, add(load(x + at, lanes), load(addend + at, lanes)), lanes); });
}

TROUPE_INLINE void rotate(Floats& x0, Floats& x1, Floats c, Floats s) {
  const Floats turned = fma(x0, c, sub(zero(), mul(x1, s)));
  x1 = fma(x0, s, mul(x1, c));
  x0 = turned;
}

void rope(float* head, const float* cos, const float* sin, int half, bool adjacent) {
  for (int i = 0; i < half; i += 16) {
    const int lanes = half - i < 16 ? half - i : 16;
    const Floats c = load(cos + i, lanes), s = load(sin + i, lanes);
    if (adjacent) {
      float* at = head + 2 * i;
      Floats x0, x1, a, b;
      deinterleave(load(at, 2 * lanes), load(at + 16, 2 * lanes - 16), x0, x1);
      rotate(x0, x1, c, s);
      interleave(x0, x1, a, b);
      store(at, a, 2 * lanes);
      store(at + 16, b, 2 * lanes - 16);
    } else {
      Floats x0 = load(head + i, lanes), x1 = load(head + half + i, lanes);
      rotate(x0, x1, c, s);
      store(head + i, x0, lanes);
      store(head + half + i, x1, lanes);
    }
  }
}

/// Sums and differences of elements that differ in bits 4 and up of their place: whole vectors.
TROUPE_INLINE void spread_vectors(Floats* x, int vectors) {
  TROUPE_UNROLL for (int width = 1; width < vectors; width *= 2) TROUPE_UNROLL for (int i = 0; i < vectors; i += 2 * width)
      TROUPE_UNROLL for (int j = i; j < i + width; ++j) {
    const Floats lower = x[j], upper = x[j + width];
    x[j] = add(lower, upper);
    x[j + width] = sub(lower, upper);
  }
}
template <int kVectors>
TROUPE_INLINE void spread_block(float* x, int any_vectors, Floats scale) {
  const int vectors = kVectors ? kVectors : any_vectors;
  Floats v[kVectors ? kVectors : kMaxHeadDim / 16];
  TROUPE_UNROLL for (int i = 0; i < vectors; ++i) v[i] = butterfly<3>(butterfly<2>(butterfly<1>(butterfly<0>(load(x + 16 * i)))));
  spread_vectors(v, vectors);
  TROUPE_UNROLL for (int i = 0; i < vectors; ++i) store(x + 16 * i, mul(v[i], scale));
}

/// Walsh-Hadamard transform: for each bit of the place, from the lowest, (x, y) becomes (x + y, x - y).
void spread(float* head, int head_dim, int block, float factor) {
  const Floats scale = set(factor);
  for (float* x = head; x < head + head_dim; x += block) {
    switch (block) {
      case 64: spread_block<4>(x, 4, scale); break;
      case 128: spread_block<8>(x, 8, scale); break;
      default: spread_block<0>(x, block / 16, scale);
    }
  }
}

}  // namespace
}  // namespace troupe::kernels::cpu::TROUPE_ISA
