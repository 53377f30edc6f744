// How float products walk over panels and rows.
namespace troupe::kernels::cpu::TROUPE_ISA {
namespace {

constexpr int kSweepRows = 64;  // rows that share a sweep over the panels

struct FloatPanel {
  const std::uint8_t* bytes;
  int inner;
};

/// Rows of x and of sums y; strides in floats.
struct FloatRows {
  const float* x;
  std::size_t x_stride;
  float* y;
  std::size_t y_stride;
  TROUPE_MEMBER FloatRows skip(std::size_t rows) const { return {x + rows * x_stride, x_stride, y + rows * y_stride, y_stride}; }
};

/// Hands panel after panel and up to 64 rows to `multiply`, which writes all 48 columns.
template <typename Multiply>
TROUPE_INLINE void for_panels(const FloatProduct& p, std::size_t row0, std::size_t row1, std::size_t panel0, std::size_t panel1,
                              Multiply multiply) {
  alignas(64) float tail[kSweepRows * kPanelColumns];
  for (std::size_t first_row = row0; first_row < row1; first_row += kSweepRows) {
    const std::size_t count = row1 - first_row < kSweepRows ? row1 - first_row : kSweepRows;
    for (std::size_t panel = panel0; panel < panel1; ++panel) {
      const std::size_t column = panel * kPanelColumns;
      const FloatPanel from{p.panels + panel * p.panel_bytes, p.inner};
      FloatRows rows{p.x + first_row * p.x_stride, p.x_stride, p.y + first_row * p.y_stride + column, p.y_stride};
      if (column + kPanelColumns <= p.columns) {
        multiply(from, rows, count);
        continue;
      }
      multiply(from, FloatRows{rows.x, rows.x_stride, tail, kPanelColumns}, count);
      for (std::size_t r = 0; r < count; ++r)
        std::memcpy(rows.y + r * rows.y_stride, tail + r * kPanelColumns, (p.columns - column) * sizeof(float));
    }
  }
}

}  // namespace
}  // namespace troupe::kernels::cpu::TROUPE_ISA
