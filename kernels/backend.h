// Backend: what a layer is written against. Eager calls on views; one implementation a device.
// Thread: one compute thread calls a backend at a time; calls are queued on the backend's one stream and finished by
// synchronize() (the CPU completes at once). Kernels do not fail: shapes are checked at load, a broken one throws.
// Invariant (README.md, same bits): a row's result depends on that row, its sequence and the numerics id alone, never on the
// batch, the split over threads, or the ISA.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::kernels {

/// fp32 rows, row-major; `stride` in floats. Does not own.
struct Rows {
  float* data = nullptr;
  std::size_t count = 0;   // rows
  std::size_t width = 0;   // floats used of each row
  std::size_t stride = 0;  // floats from row to row
  float* row(std::size_t i) const { return data + i * stride; }
  Rows slice(std::size_t first, std::size_t n) const { return {data + first * stride, n, width, stride}; }
};

/// Storage types of a model file that a backend can pack (names as in GGUF).
enum class StorageType : std::uint8_t { kF32, kF16, kBF16, kQ8_0, kQ4_0, kQ4_1, kQ6_K };
inline constexpr StorageType kAllStorageTypes[] = {StorageType::kF32,  StorageType::kF16,  StorageType::kBF16, StorageType::kQ8_0,
                                                   StorageType::kQ4_0, StorageType::kQ4_1, StorageType::kQ6_K};

/// One matrix of the file: `rows` outputs of `cols` inputs, in the file's block layout. Does not own.
struct MatrixSource {
  StorageType type = StorageType::kF32;
  const std::byte* data = nullptr;
  std::size_t rows = 0;
  std::size_t cols = 0;
  /// Instead of `data`: copies to.size() bytes from byte `offset` of the matrix on; false if they cannot be read. Called by all
  /// threads of the team; does not throw.
  std::function<bool(std::size_t offset, std::span<std::byte> to)> read = {};
};

/// What a product does with its result: stores it, or adds it to what y holds by one addition an element (the same bits as a product and
/// then Backend::add).
enum class Output : std::uint8_t { kStore, kAdd };

/// Arithmetic of a matrix product's inputs; part of the numerics id.
enum class Activations : std::uint8_t { kInt8Group32, kInt8Token, kFp32, kBf16 };
enum class KvFormat : std::uint8_t { kInt8, kFp16, kFp32 };
// Tests and tables run over these lists, so a new value belongs here too.
inline constexpr Activations kAllActivations[] = {Activations::kInt8Group32, Activations::kInt8Token, Activations::kFp32,
                                                  Activations::kBf16};
inline constexpr KvFormat kAllKvFormats[] = {KvFormat::kInt8, KvFormat::kFp16, KvFormat::kFp32};

/// What packing makes of weights: the file's own format, or 8 bits with one scale an output (quantized anew). Part of the numerics id.
enum class WeightFormat : std::uint8_t { kFile, kInt8Channel };
inline constexpr WeightFormat kAllWeightFormats[] = {WeightFormat::kFile, WeightFormat::kInt8Channel};

/// How rows travel between ranks: one row after the other, each in wire_row_bytes() (README.md, on the wire). Groups of values that share a
/// scale never leave their row. Part of the numerics id.
enum class WireFormat : std::uint8_t { kFp32, kBf16, kInt8Group128, kInt8Group32, kInt6Group32, kInt4Group32 };
inline constexpr WireFormat kAllWireFormats[] = {WireFormat::kFp32,        WireFormat::kBf16,        WireFormat::kInt8Group128,
                                                 WireFormat::kInt8Group32, WireFormat::kInt6Group32, WireFormat::kInt4Group32};
/// Bytes of a row of `width` values, a multiple of 4.
std::size_t wire_row_bytes(WireFormat format, std::size_t width);

/// A packed weight: panels of 48 output columns (kernels/cpu/pack.h). Made by Backend::pack, used only with that backend.
class Weight {
 public:
  virtual ~Weight() = default;
  std::size_t rows() const { return rows_; }  // outputs
  std::size_t cols() const { return cols_; }  // inputs
  std::size_t bytes() const { return bytes_; }
  /// The packed bytes, as Backend::adopt takes them back; empty where they do not lie in host memory.
  virtual std::span<const std::byte> packed() const = 0;

 protected:
  std::size_t rows_ = 0, cols_ = 0, bytes_ = 0;
};

struct KvShape {
  std::size_t layers = 0, kv_heads = 0, head_dim = 0, blocks = 0;
  KvFormat format = KvFormat::kInt8;
  /// q and K of every head pass a Walsh-Hadamard transform behind RoPE (QuaRot, Ashkboos et al. 2024): products stay, but the large
  /// channels of K are spread over the head, which halves the error of 8-bit scores. Part of the numerics id.
  bool spread_heads = false;
};

/// K and V of all blocks: one slab a (layer, block) that holds all kv heads' K, V and scales.
class KvCache {
 public:
  virtual ~KvCache() = default;
  const KvShape& shape() const { return shape_; }
  virtual std::size_t bytes() const = 0;
  /// Copies positions [0, tokens) of `source` to `target` in every layer.
  virtual void copy_block(std::uint32_t source, std::uint32_t target, std::size_t tokens) = 0;
  /// Takes the memory of a layer's blocks [first, first + count) from the system now rather than when they are first written; bytes stay
  /// as they are. Best effort, on any thread, also while others compute.
  virtual void make_resident(std::size_t layer, std::uint32_t first, std::uint32_t count) = 0;
  /// Debug aid: fills a block with 0xff, so that a read of an unwritten slot shows. Bits of results must not change.
  virtual void poison_block(std::uint32_t block) = 0;

  // A block as it travels to other tiers and back, all layers in one piece. On any thread, also while steps compute: until the call
  // returns, a block that is read stays as it is (its step has finished, and no plan writes it), and one that is written is nobody
  // else's (leased, named by no plan). Messages order the calls behind the step that filled the block and before the one that reads it.
  // These throw std::invalid_argument for a block that is not there or a span that is not block_bytes() long.
  virtual std::size_t block_bytes() const = 0;
  /// Names shape, format and order of the bytes: under equal names one cache takes what another one gave.
  virtual std::string block_layout() const = 0;
  virtual void read_block(std::uint32_t block, std::span<std::byte> to) const = 0;
  virtual void write_block(std::uint32_t block, std::span<const std::byte> from) = 0;

 protected:
  KvShape shape_;
};
/// Bytes of one block over all layers.
std::size_t kv_block_bytes(const KvShape& shape);

/// Consecutive rows of the batch = consecutive positions of one sequence.
struct SequenceRows {
  std::size_t first_row = 0;
  std::size_t rows = 0;
  std::uint32_t position = 0;             // of first_row
  const std::uint32_t* blocks = nullptr;  // table: position p lies in blocks[p / 32], slot p % 32
};

/// Which two elements of a head make pair i: (2i, 2i + 1), as llama models in GGUF files have them, or (i, i + head_dim / 2).
enum class RopePairs : std::uint8_t { kAdjacent, kHalves };

/// cos and sin of every position, [positions][head_dim / 2] each, computed once with fixed polynomials in double (no libm).
struct RopeTable {
  std::vector<float> cos, sin;
  std::size_t half = 0;
  RopePairs pairs = RopePairs::kAdjacent;
};
RopeTable make_rope_table(std::size_t head_dim, double freq_base, std::size_t positions);

/// One draw or score from a row of logits; the caller has applied penalties and bias.
struct SampleRequest {
  const float* logits = nullptr;  // [width]; entries at or below -1e30 (padding, banned ids) are never drawn
  std::size_t width = 0;          // logits in the row, with or without its padding
  float temperature = 0.0F;       // 0 = greedy (argmax, lowest id wins)
  float top_p = 1.0F, min_p = 0.0F;
  std::uint32_t top_k = 0;
  float uniform = 0.0F;              // [0, 1), Philox
  std::uint32_t score = 0xffffffff;  // an id: no draw, only its log-probability
  bool want_logprob = false;
  std::uint32_t top_logprobs = 0;  // 0...20 best (id, logprob), natural log, before temperature
};
struct SampleResult {
  std::uint32_t token = 0;
  float logprob = 0.0F;
  bool finite = true;  // false: NaN or infinite logits, no token
  std::vector<std::uint32_t> top_ids;
  std::vector<float> top_logprobs;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;    // "cpu"
  virtual std::string description() const = 0;  // ISA level and threads, for the start-up line
  virtual std::size_t threads() const = 0;
  virtual Activations activations() const = 0;

  /// Packs `sources` stacked along the outputs (so QKV and gate/up become one product). All have the same cols. nullptr if a source
  /// could not be read; throws std::invalid_argument for matrices that no kernel takes.
  virtual std::unique_ptr<Weight> pack(std::span<const MatrixSource> sources) = 0;
  /// Names the byte layout of packed weights: with equal names, shapes and types, bytes that one backend packed serve another.
  virtual std::string pack_layout() const = 0;
  /// Copies bytes of the packed weight from `offset` on, to.size() of them; false if they cannot be had or are not to be trusted.
  /// Called by all threads of the team, for pieces that begin at multiples of kAdoptPiece; does not throw.
  using PackedReader = std::function<bool(std::size_t offset, std::span<std::byte> to)>;
  static constexpr std::size_t kAdoptPiece = std::size_t{1} << 20;
  /// A weight as pack(sources) would make it, from bytes packed earlier; data of `sources` is not used. nullptr if `read` fails.
  virtual std::unique_ptr<Weight> adopt(std::span<const MatrixSource> sources, const PackedReader& read) = 0;
  virtual std::unique_ptr<KvCache> make_kv_cache(const KvShape& shape) = 0;

  /// y[i] = row ids[i] of the embedding matrix, dequantized (a tied head's packed weight serves).
  virtual void embed(const Weight& table, std::span<const std::uint32_t> ids, Rows y) = 0;
  virtual void rms_norm(Rows x, const float* weight, float eps, Rows y) = 0;
  /// y = x W^T, or y += x W^T. x is quantized per row as `activations()` says.
  virtual void linear(const Weight& weight, Rows x, Rows y, Output output = Output::kStore) = 0;
  /// y = rms_norm(x) W^T; composed by default.
  virtual void norm_linear(Rows x, const float* norm_weight, float eps, const Weight& weight, Rows y);
  /// The same with the input in two int8 terms, x ~ Q(x) + Q(x - Q(x)), where `activations()` are int8: about 16 bits, for twice the
  /// multiplications. For small products whose error weighs most. By default, and for weights that are not int8: norm_linear.
  virtual void norm_linear_two_terms(Rows x, const float* norm_weight, float eps, const Weight& weight, Rows y);
  /// y = swiglu(gate_up) W^T, gate = first half of a row, up = second half; composed by default.
  virtual void swiglu_linear(Rows gate_up, const Weight& weight, Rows y, Output output = Output::kStore);
  virtual void swiglu(Rows gate_up, Rows y) = 0;
  /// x += addend.
  virtual void add(Rows x, Rows addend) = 0;
  /// Rotates q and k of every row (row = [q heads | k heads | v heads] * head_dim) and stores K and V in their blocks.
  virtual void rope_append(Rows qkv, std::size_t q_heads, std::span<const SequenceRows> sequences, const RopeTable& rope, KvCache& kv,
                           std::size_t layer) = 0;
  /// out[row] = attention of the row's q heads over positions 0 ... its own. K and V of all rows are already stored.
  virtual void attention(Rows qkv, std::size_t q_heads, std::span<const SequenceRows> sequences, const KvCache& kv, std::size_t layer,
                         Rows out) = 0;
  virtual void sample(std::span<const SampleRequest> requests, std::span<SampleResult> results) = 0;
  /// to = the rows as they travel, x.count * wire_row_bytes(format, x.width) bytes. A group with a value that is not finite decodes to NaN.
  virtual void encode(Rows x, WireFormat format, std::span<std::byte> to);
  /// x += loss, and to = x as it travels; then loss = x - what the bytes decode to. x and loss are of one shape and lie apart.
  virtual void encode_carrying(Rows x, Rows loss, WireFormat format, std::span<std::byte> to);
  /// y = sum, or y += sum by one more addition, where sum = parts[0] + parts[1] + ... decoded, in fp32, in this order. Each part holds
  /// y.count rows.
  virtual void decode_sum(std::span<const std::span<const std::byte>> parts, WireFormat format, Rows y, Output output);
  /// Every row += bias, [width].
  virtual void add_bias(Rows x, const float* bias);
  /// `poll` is called by the compute thread about every half a millisecond within long ops: transfers that run beside them are advanced
  /// there. It must not throw and not call the backend. Empty: none.
  virtual void set_poll(std::function<void()> poll);
  /// All queued work is done and visible to the host.
  virtual void synchronize() = 0;

 private:
  std::vector<float> scratch_;  // of the composed defaults
};

struct CpuOptions {
  std::size_t threads = 0;  // 0 = cores of the process (n - 1 from 8 up)
  bool pin = true;          // best effort
  unsigned spin_us = 150;   // barrier spin before futex; 0 in tests
  std::string isa;          // "" = best; a name of cpu_isa_levels() forces a level (or env TROUPE_CPU_ISA)
  Activations activations = Activations::kInt8Group32;
  WeightFormat weights = WeightFormat::kFile;
};
/// Throws std::invalid_argument for an ISA that this machine lacks or does not know.
std::unique_ptr<Backend> make_cpu_backend(const CpuOptions& options);
/// Levels this machine can run, best first: of {"amx", "avx512_bf16", "avx512_vnni", "avx_vnni", "avx2", "ref"}.
std::vector<std::string> cpu_isa_levels();

}  // namespace troupe::kernels
