// bf16 products of levels without bf16 instructions: those of matmul_float.inl on rounded inputs and weights.
namespace troupe::kernels::cpu::TROUPE_ISA {
namespace {

void round_row(const float* x, int cols, float* to) {
  for (int i = 0; i < cols; i += 16) store(to + i, swap_neighbours(round_bfloat(load(x + i, cols - i))));
}

void multiply_bfloat(const FloatProduct& p, std::size_t row0, std::size_t row1, std::size_t panel0, std::size_t panel1) {
  [[maybe_unused]] const FlushDenormals mode{};
  multiply_any<true>(p, row0, row1, panel0, panel1);
}

}  // namespace
}  // namespace troupe::kernels::cpu::TROUPE_ISA
