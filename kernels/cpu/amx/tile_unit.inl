// The tile unit of this thread: int32 sums of 16 quantized rows x 48 outputs in tiles 0 ... 2, inputs in 3 ... 7. Exact.
// tests/kernels/emulated_tile_unit.inl is the same in plain code: so tiles.inl is tested on machines without the unit.
namespace troupe::kernels::cpu::TROUPE_ISA {
namespace {

/// A constant, not a local: compilers are told of the first 8 bytes only that the instruction reads.
alignas(64) constexpr struct {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 32, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 8};
} kTileShapes;

/// While it lives, this thread's tiles have their shapes; then the unit is free again.
class TileShapes {
 public:
  TileShapes() { _tile_loadconfig(&kTileShapes); }
  ~TileShapes() { _tile_release(); }
  TileShapes(const TileShapes&) = delete;
  TileShapes& operator=(const TileShapes&) = delete;
};

// Nor are they told that a tile load reads memory: what was stored before must be there.
#define TROUPE_STORED __asm__ volatile("" ::: "memory")

struct TileUnit {
  static TROUPE_MEMBER void zero_sums() {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
  }
  /// [16][48].
  static TROUPE_MEMBER void load_sums(const void* from) {
    TROUPE_STORED;
    const auto* p = static_cast<const std::uint8_t*>(from);
    _tile_loadd(0, p, 4 * kPanelColumns);
    _tile_loadd(1, p + 64, 4 * kPanelColumns);
    _tile_loadd(2, p + 128, 4 * kPanelColumns);
  }
  static TROUPE_MEMBER void store_sums(void* to) {
    auto* p = static_cast<std::uint8_t*>(to);
    _tile_stored(0, p, 4 * kPanelColumns);
    _tile_stored(1, p + 64, 4 * kPanelColumns);
    _tile_stored(2, p + 128, 4 * kPanelColumns);
  }
  /// Adds 64 inputs: signed x[16][x_stride], unsigned w[16][48][4].
  static TROUPE_MEMBER void add_sixty_four(const std::int8_t* x, std::size_t x_stride, const std::uint8_t* w) {
    TROUPE_STORED;
    _tile_loadd(3, x, x_stride);
    _tile_loadd(4, w, 4 * kPanelColumns);
    _tile_dpbsud(0, 3, 4);
    _tile_loadd(5, w + 64, 4 * kPanelColumns);
    _tile_dpbsud(1, 3, 5);
    _tile_loadd(4, w + 128, 4 * kPanelColumns);
    _tile_dpbsud(2, 3, 4);
  }
  /// Adds 32 inputs: x[16][x_stride], w[8][48][4].
  static TROUPE_MEMBER void add_thirty_two(const std::int8_t* x, std::size_t x_stride, const std::uint8_t* w) {
    TROUPE_STORED;
    _tile_loadd(6, x, x_stride);
    _tile_loadd(7, w, 4 * kPanelColumns);
    _tile_dpbsud(0, 6, 7);
    _tile_loadd(7, w + 64, 4 * kPanelColumns);
    _tile_dpbsud(1, 6, 7);
    _tile_loadd(7, w + 128, 4 * kPanelColumns);
    _tile_dpbsud(2, 6, 7);
  }
};

#undef TROUPE_STORED

}  // namespace
}  // namespace troupe::kernels::cpu::TROUPE_ISA
