// The operations of kernels/cpu/amx/tile_unit.inl in plain code.
namespace troupe::kernels::cpu::TROUPE_ISA {
namespace {

std::int32_t tile_sums[16][kPanelColumns];
int tile_shapes_alive = 0;

struct TileShapes {
  TileShapes() {
    ++tile_shapes_alive;
    std::memset(tile_sums, 0x7f, sizeof tile_sums);  // sums that nobody starts show
  }
  ~TileShapes() { --tile_shapes_alive; }
};

struct TileUnit {
  static void zero_sums() { std::memset(tile_sums, 0, sizeof tile_sums); }
  static void load_sums(const void* from) { std::memcpy(tile_sums, from, sizeof tile_sums); }
  static void store_sums(void* to) { std::memcpy(to, tile_sums, sizeof tile_sums); }
  static void add_inputs(const std::int8_t* x, std::size_t x_stride, const std::uint8_t* w, int inputs) {
    if (tile_shapes_alive != 1) __builtin_trap();
    for (std::size_t row = 0; row < 16; ++row)
      for (int column = 0; column < kPanelColumns; ++column)
        for (int k = 0; k < inputs; ++k)
          tile_sums[row][column] += x[row * x_stride + static_cast<std::size_t>(k)] * w[(k / 4 * kPanelColumns + column) * 4 + k % 4];
  }
  static void add_sixty_four(const std::int8_t* x, std::size_t x_stride, const std::uint8_t* w) { add_inputs(x, x_stride, w, 64); }
  static void add_thirty_two(const std::int8_t* x, std::size_t x_stride, const std::uint8_t* w) { add_inputs(x, x_stride, w, 32); }
};

}  // namespace
}  // namespace troupe::kernels::cpu::TROUPE_ISA
