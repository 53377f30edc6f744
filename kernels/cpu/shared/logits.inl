// Scans over a row of logits: maximum and finiteness, first index of a value, sums of exponentials, ids above a threshold.
namespace troupe::kernels::cpu::TROUPE_ISA {
namespace {

float scan_logits(const float* x, int n, bool* finite) {
  Floats most = set(kNever), size = zero();
  bool comparable = true;
  for (int i = 0; i < n; i += 16) {
    const int lanes = n - i < 16 ? n - i : 16;
    const Floats v = load(x + i, lanes);
    most = max(select(first(lanes), v, set(kNever)), most);
    size = max(abs(v), size);  // a NaN is not seen here, but by the comparison
    comparable = comparable && mask_bits(equal(v, v)) == 0xffffU;
  }
  *finite = comparable && low(max_of_lanes(size)) < __builtin_inff();
  return low(max_of_lanes(most));
}

int find_logit(const float* x, int n, float value) {
  const Floats wanted = set(value);
  for (int i = 0; i < n; i += 16) {
    const int lanes = n - i < 16 ? n - i : 16;
    const unsigned hits = mask_bits(equal(load(x + i, lanes), wanted)) & ((1U << lanes) - 1);
    if (hits) return i + __builtin_ctz(hits);
  }
  return n;
}

float exp_sums(const float* x, int n, float most, float factor, float* e, float* chunk_sums) {
  const Floats top = set(most), scale = set(factor);
  float total = 0;
  for (int chunk = 0; chunk * kSumChunk < n; ++chunk) {
    const int end = n - chunk * kSumChunk < kSumChunk ? n : (chunk + 1) * kSumChunk;
    Floats sum = zero();
    for (int i = chunk * kSumChunk; i < end; i += 16) {
      const int lanes = end - i < 16 ? end - i : 16;
      Floats v = exp2p(mul(sub(load(x + i, lanes), top), scale));
      if (lanes < 16) v = select(first(lanes), v, zero());
      store(e + i, v, lanes);
      sum = add(sum, v);
    }
    chunk_sums[chunk] = sum_of_lanes(sum);
    total += chunk_sums[chunk];
  }
  return total;
}

int collect_logits(const float* x, int n, float threshold, std::uint32_t* ids) {
  const Floats least = set(threshold);
  int count = 0;
  for (int i = 0; i < n; i += 16) {
    const int lanes = n - i < 16 ? n - i : 16;
    unsigned hits = mask_bits(greater_equal(load(x + i, lanes), least)) & ((1U << lanes) - 1);
    for (; hits; hits &= hits - 1) ids[count++] = static_cast<std::uint32_t>(i + __builtin_ctz(hits));
  }
  return count;
}

}  // namespace
}  // namespace troupe::kernels::cpu::TROUPE_ISA
