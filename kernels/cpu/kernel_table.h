// The tables of function pointers that one instruction-set level offers, and the plain structs that they take.
// Included by one-ISA files, so: no function bodies, no standard classes. Pointers are not owned.
// Invariants: all levels give the same bits for the same arguments, and touch no byte outside the arrays as they are sized here (a
// prefetch may).
#pragma once
#include <cstddef>
#include <cstdint>

namespace troupe::kernels::cpu {

constexpr int kPanelColumns = 48;      // outputs of a packed panel: 3 x 16 lanes, 6 x 8 lanes, 3 AMX tiles
constexpr int kGroup = 32;             // inputs that share a weight scale and (by default) an activation scale
constexpr int kBlockTokens = 32;       // positions of a KV block = of an attention tile
constexpr int kMaxHeadDim = 512;       // bound of fixed buffers
constexpr int kMaxAttentionRows = 64;  // (position, query head) pairs of one kv head that a call takes
constexpr int kSumChunk = 512;         // logits whose exponentials are summed together
constexpr float kNever = -1e30F;       // logit of padding and banned ids; score of masked positions
constexpr float kLog2E = 0x1.715476p+0F;

/// Layout of a panel, from the first input to the last (pack.h tells the bytes).
enum class PanelFormat : std::uint8_t { kW4Group32, kW8Group32, kW8Group16, kW8Channel, kF32, kF16, kBF16 };
inline constexpr PanelFormat kAllPanelFormats[] = {PanelFormat::kW4Group32, PanelFormat::kW8Group32, PanelFormat::kW8Group16,
                                                   PanelFormat::kW8Channel, PanelFormat::kF32,       PanelFormat::kF16,
                                                   PanelFormat::kBF16};

/// Activations as int8, quantized row by row. `groups` = inputs / 32.
struct QuantizedRows {
  std::int8_t* values = nullptr;      // [rows][stride]
  std::size_t stride = 0;             // bytes from row to row
  float* scales = nullptr;            // [rows][groups]; with one scale a token it is repeated
  std::int32_t* half_sums = nullptr;  // [rows][2 * groups]: sum of each 16 values
  std::int32_t* biases = nullptr;     // [rows][groups]: -128 * sum of 32 values
  float* scaled_sums = nullptr;       // [rows][groups]: sum of 32 values, times the scale when there is one a group
  bool per_group = true;
};

struct Int8Product {
  PanelFormat format = PanelFormat::kW4Group32;
  const std::uint8_t* panels = nullptr;
  std::size_t panel_bytes = 0;
  int groups = 0;
  std::size_t columns = 0;  // outputs; the last panel may hold fewer than 48
  QuantizedRows rows;
  float* y = nullptr;  // [rows][y_stride], from the first output of the panels
  std::size_t y_stride = 0;
  std::size_t terms = 1;  // 2: products of quantized rows 2 i and 2 i + 1 are added to row i of y
  bool add = false;       // to what y holds, by one addition
};

struct FloatProduct {
  PanelFormat format = PanelFormat::kF32;
  const std::uint8_t* panels = nullptr;
  std::size_t panel_bytes = 0;
  int inner = 0;  // inputs
  std::size_t columns = 0;
  const float* x = nullptr;
  std::size_t x_stride = 0;
  float* y = nullptr;
  std::size_t y_stride = 0;
};

/// Matrix products. Rows [row0, row1) of y x panels [panel0, panel1); any split gives the same bits.
struct MatmulKernels {
  /// Quantizes `cols` (a multiple of 32) floats to row `row` of `to`.
  void (*quantize_row)(const float* x, int cols, const QuantizedRows& to, std::size_t row);
  void (*multiply_int8)(const Int8Product& product, std::size_t row0, std::size_t row1, std::size_t panel0, std::size_t panel1);
  void (*multiply_float)(const FloatProduct& product, std::size_t row0, std::size_t row1, std::size_t panel0, std::size_t panel1);
};

/// Matrix products with inputs and weights rounded to bf16 (README.md, same bits): sums of pairs of inputs, the second of a pair first.
struct BfloatKernels {
  /// `cols` floats, rounded, in the order that multiply_bfloat of the same level reads. `to` has room for the next multiple of 16.
  void (*round_row)(const float* x, int cols, float* to);
  /// As multiply_float; product.x are rows as round_row has left them.
  void (*multiply)(const FloatProduct& product, std::size_t row0, std::size_t row1, std::size_t panel0, std::size_t panel1);
};

/// Element-wise ops and norms of one row, any length.
struct RowKernels {
  void (*rms_norm)(const float* x, const float* weight, int n, float eps, float* y);
  void (*swiglu)(const float* gate, const float* up, int n, float* y);
  void (*add)(float* x, const float* addend, int n);
  /// In place; `half` pairs, adjacent or half a head apart.
  void (*rope)(float* head, const float* cos, const float* sin, int half, bool adjacent);
  /// In place: x = factor * H x for every block of `block` elements (a power of two, 16 ... kMaxHeadDim) of a head; H H = block.
  void (*spread)(float* head, int head_dim, int block, float factor);
  /// y = x - what quantize_row has made of x.
  void (*quantization_error)(const float* x, int cols, const QuantizedRows& quantized, std::size_t row, float* y);
};

/// Attention of `rows` (position, query head) pairs over each of `heads` neighbouring kv heads of one sequence.
/// Arrays of rows are [heads][row_stride], rounded up to a multiple of 16 rows in all; positions ascend. Where row_stride = rows and
/// all rows are of one position (decode), the heads of a tile are worked on together.
struct AttentionRun {
  const std::uint8_t* layer = nullptr;  // slab of (layer, block 0), at the first of the kv heads
  std::size_t block_bytes = 0;          // slab to slab
  std::size_t head_bytes = 0;           // kv head to kv head
  const std::uint32_t* blocks = nullptr;
  int head_dim = 0, heads = 0, rows = 0, row_stride = 0;
  const std::int32_t* positions = nullptr;  // [rows]
  const std::int8_t* q = nullptr;           // [heads][row_stride][head_dim], int8 cache
  const float* q_scale = nullptr;           // [heads][row_stride], times log2(e) / sqrt(head_dim)
  const std::int32_t* q_sum = nullptr;      // [heads][row_stride]
  const float* q_float = nullptr;           // [heads][row_stride][head_dim], float caches
  float score_scale = 0;                    // log2(e) / sqrt(head_dim), float caches
  // The state of the fold over tiles:
  float* max = nullptr;    // [heads][row_stride]
  float* lanes = nullptr;  // [heads][row_stride][16]: sums of exponentials
  float* out = nullptr;    // [heads][row_stride][head_dim]
  /// Not null: no fold. Each tile's own part is written instead, to max, lanes, out and factor [tile1 - tile0][heads][rows]...,
  /// for fold_row. All rows are of one position then.
  float* factor = nullptr;
};

/// Parts of `rows` rows in consecutive tiles, as attend_* has written them.
struct AttentionParts {
  float* max = nullptr;     // [tiles][rows]
  float* factor = nullptr;  // [tiles][rows]: of `out`
  float* lanes = nullptr;   // [tiles][rows][16]
  float* out = nullptr;     // [tiles][rows][head_dim]
  int tiles = 0, rows = 0, head_dim = 0;
};

struct AttentionKernels {
  /// Stores K and V of one position and kv head in slot `slot` of its block.
  void (*store_int8)(std::uint8_t* head, int head_dim, int slot, const float* k, const float* v);
  void (*store_f16)(std::uint8_t* head, int head_dim, int slot, const float* k, const float* v);
  void (*store_f32)(std::uint8_t* head, int head_dim, int slot, const float* k, const float* v);
  void (*quantize_query)(const float* x, int head_dim, float scale, std::int8_t* q, float* q_scale, std::int32_t* q_sum);
  /// Folds tiles [tile0, tile1) into the state; tiles that a row does not see leave it untouched.
  void (*attend_int8)(const AttentionRun& run, int tile0, int tile1);
  void (*attend_f16)(const AttentionRun& run, int tile0, int tile1);
  void (*attend_f32)(const AttentionRun& run, int tile0, int tile1);
  /// Folds one row of the parts into its state, tile by tile, as attend_* would have done.
  void (*fold_row)(const AttentionParts& parts, int row, float* max, float* lanes, float* out);
  /// y = out / sum of lanes, one row.
  void (*finish)(const float* lanes, const float* out, int head_dim, float* y);
};

/// Scans over one row of logits.
struct LogitKernels {
  /// Largest value and whether all are finite.
  float (*scan)(const float* x, int n, bool* finite);
  /// First index that holds `value`; n if none.
  int (*find)(const float* x, int n, float value);
  /// e[i] = 2^((x[i] - max) * factor), summed by chunks of 512; returns the sum of the chunks in order.
  float (*exp_sums)(const float* x, int n, float max, float factor, float* e, float* chunk_sums);
  /// Ids in ascending order of all x >= threshold; returns how many. `ids` has room for n + 16.
  int (*collect)(const float* x, int n, float threshold, std::uint32_t* ids);
};

/// One wire format: single rows of n values, in the bytes that wire_row_bytes() says (backend.h), at multiples of four bytes.
struct WireCodec {
  void (*encode)(const float* x, int n, std::uint8_t* to);
  /// y = sum of the rows that lie at `offset` of `count` parts (at least one), decoded, in order; or that added to y.
  void (*decode_sum)(const std::uint8_t* const* parts, int count, std::size_t offset, int n, float* y, bool add);
};
struct WireKernels {
  WireCodec fp32, bf16, int8_group128, int8_group32, int6_group32, int4_group32;
};

/// What a level can do at most (kernels/roof.h). `sink`: 16 floats of operands, then room for 16. They return the operations done.
struct RoofKernels {
  double (*bytes)(long rounds, float* sink);    // 8-bit weights
  double (*nibbles)(long rounds, float* sink);  // 4-bit weights: fewer instructions where there is no VNNI
  double (*fp32)(long rounds, float* sink);
  double (*bf16)(long rounds, float* sink);  // nullptr: no such instruction
  void (*read)(const std::uint8_t* from, std::size_t bytes, float* sink);
};

}  // namespace troupe::kernels::cpu
