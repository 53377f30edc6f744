// Attention: every cache format over head sizes with and without kernels of their own, rows around the tile sizes, positions around the
// borders of blocks, block tables out of order. Slots behind the last position stay 0xff: NaN scales and values that must not be seen.
#include "tests/kernels/conformance/values.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace troupe::kernels::testing {
namespace {

using Store = void (*)(std::uint8_t*, int, int, const float*, const float*);
using Attend = void (*)(const cpu::AttentionRun&, int, int);
Store store_of(const cpu::AttentionKernels& kernels, KvFormat format) {
  switch (format) {
    case KvFormat::kInt8: return kernels.store_int8;
    case KvFormat::kFp16: return kernels.store_f16;
    case KvFormat::kFp32: return kernels.store_f32;
  }
  return nullptr;
}
Attend attend_of(const cpu::AttentionKernels& kernels, KvFormat format) {
  switch (format) {
    case KvFormat::kInt8: return kernels.attend_int8;
    case KvFormat::kFp16: return kernels.attend_f16;
    case KvFormat::kFp32: return kernels.attend_f32;
  }
  return nullptr;
}

/// `positions` consecutive rows of a sequence, the first at `first`, with `group` query heads of each kv head.
struct Shape {
  std::size_t dim, heads, first, positions, group;
  std::size_t length() const { return first + positions; }
  std::size_t blocks() const { return (length() + cpu::kBlockTokens - 1) / cpu::kBlockTokens; }
  std::size_t rows() const { return positions * group; }
  std::string name() const {
    return "head " + std::to_string(dim) + " x " + std::to_string(heads) + ", positions " + std::to_string(first) + " to " +
           std::to_string(length() - 1) + ", " + std::to_string(group) + " a position";
  }
};

/// A layer of cache that holds `length` positions of one sequence, in blocks that descend.
class Layer {
 public:
  Layer(const cpu::KernelSet& set, const Shape& shape, KvFormat format, Edge edge)
      : head_bytes_(kv_block_bytes({1, 1, shape.dim, 1, format})),
        block_bytes_(head_bytes_ * shape.heads),
        slabs_(block_bytes_ * shape.blocks(), edge),
        blocks_(shape.blocks(), edge) {
    for (std::size_t b = 0; b < blocks_.size(); ++b) blocks_[b] = static_cast<std::uint32_t>(blocks_.size() - 1 - b);
    Random random(shape.dim + shape.length());
    const GuardedArray<float> k(shape.dim, edge), v(shape.dim, edge);
    for (std::size_t p = 0; p < shape.length(); ++p)
      for (std::size_t h = 0; h < shape.heads; ++h) {
        k.assign(values_of(random, shape.dim, magnitude_at(p)));
        v.assign(values_of(random, shape.dim, magnitude_at(p + 3)));
        std::uint8_t* head = slabs_.data() + blocks_[p / cpu::kBlockTokens] * block_bytes_ + h * head_bytes_;
        store_of(set.attention, format)(head, static_cast<int>(shape.dim), static_cast<int>(p % cpu::kBlockTokens), k.data(), v.data());
      }
  }
  const GuardedArray<std::uint8_t>& slabs() const { return slabs_; }
  void describe(cpu::AttentionRun& run) const {
    run.layer = slabs_.data();
    run.block_bytes = block_bytes_;
    run.head_bytes = head_bytes_;
    run.blocks = blocks_.data();
  }

 private:
  /// Zero and denormal vectors among ordinary ones. (Huge keys would make infinite scores, which a model never has.)
  static Magnitude magnitude_at(std::size_t i) {
    return i % 11 == 5 ? Magnitude::kZero : i % 11 == 9 ? Magnitude::kDenormal : i % 3 == 0 ? Magnitude::kMixed : Magnitude::kOrdinary;
  }

  std::size_t head_bytes_, block_bytes_;
  GuardedArray<std::uint8_t> slabs_;
  GuardedArray<std::uint32_t> blocks_;
};

std::size_t whole_vectors(std::size_t rows) { return (rows + 15) / 16 * 16; }
/// Whether each head's rows are padded to 16, or all heads' together.
enum class Padding { kEachHead, kTogether };

/// Queries and fold state in arrays of exactly the stated size. What pads them is 0xff.
class Queries {
 public:
  /// Rows [from, to) of the shape's.
  Queries(const cpu::KernelSet& set, const Shape& shape, KvFormat format, const Layer& layer, Edge edge, std::size_t from, std::size_t to,
          Padding padding = Padding::kEachHead)
      : set_(set),
        format_(format),
        rows_(to - from),
        stride_(padding == Padding::kEachHead ? whole_vectors(rows_) : rows_),
        dim_(shape.dim),
        heads_(shape.heads),
        all_(whole_vectors(heads_ * stride_)),
        positions_(rows_, edge),
        q_(format == KvFormat::kInt8 ? all_ * dim_ : 0, edge),
        q_scale_(all_, edge),
        q_sum_(all_, edge),
        q_float_(format == KvFormat::kInt8 ? 0 : all_ * dim_, edge),
        max_(all_, edge),
        lanes_(all_ * 16, edge),
        out_(all_ * dim_, edge),
        y_(dim_, edge) {
    const auto scale = static_cast<float>(0x1.71547652b82fep+0 / std::sqrt(static_cast<double>(dim_)));
    for (std::size_t r = 0; r < rows_; ++r) positions_[r] = static_cast<std::int32_t>(shape.first + (from + r) / shape.group);
    const GuardedArray<float> x(dim_, edge);
    for (std::size_t h = 0; h < heads_; ++h)
      for (std::size_t r = 0; r < rows_; ++r) {
        const std::size_t at = h * stride_ + r;
        Random random(1000 * h + from + r);
        const Magnitude magnitude = (from + r) % 13 == 6  ? Magnitude::kZero
                                    : (from + r) % 5 == 2 ? Magnitude::kMixed
                                                          : Magnitude::kOrdinary;
        x.assign(values_of(random, dim_, magnitude));
        if (format == KvFormat::kInt8)
          set.attention.quantize_query(x.data(), static_cast<int>(dim_), scale, q_.data() + at * dim_, &q_scale_[at], &q_sum_[at]);
        else
          std::memcpy(q_float_.data() + at * dim_, x.data(), dim_ * sizeof(float));
      }
    std::fill_n(max_.data(), max_.size(), cpu::kNever);
    std::fill_n(lanes_.data(), lanes_.size(), 0.0F);
    std::fill_n(out_.data(), out_.size(), 0.0F);
    layer.describe(run_);
    run_.head_dim = static_cast<int>(dim_);
    run_.heads = static_cast<int>(heads_);
    run_.rows = static_cast<int>(rows_);
    run_.row_stride = static_cast<int>(stride_);
    run_.positions = positions_.data();
    run_.q = q_.data();
    run_.q_scale = q_scale_.data();
    run_.q_sum = q_sum_.data();
    run_.q_float = q_float_.data();
    run_.score_scale = scale;
    run_.max = max_.data();
    run_.lanes = lanes_.data();
    run_.out = out_.data();
  }

  int tiles() const { return positions_[rows_ - 1] / cpu::kBlockTokens + 1; }
  void attend(int tile0, int tile1) const { attend_of(set_.attention, format_)(run_, tile0, tile1); }
  /// Every tile's part by itself, in two calls, then the parts folded row by row, as threads share a long row. All rows of one position.
  void attend_in_parts(Edge edge) const {
    const std::size_t rows = heads_ * rows_, count = static_cast<std::size_t>(tiles());
    const GuardedArray<float> max(count * rows, edge), factor(count * rows, edge), lanes(count * rows * 16, edge);
    const GuardedArray<float> out(count * rows * dim_, edge);
    for (const auto& [begin, end] : {std::pair{std::size_t{0}, count / 2}, std::pair{count / 2, count}}) {
      if (begin == end) continue;
      cpu::AttentionRun part = run_;
      part.max = max.data() + begin * rows;
      part.factor = factor.data() + begin * rows;
      part.lanes = lanes.data() + begin * rows * 16;
      part.out = out.data() + begin * rows * dim_;
      attend_of(set_.attention, format_)(part, static_cast<int>(begin), static_cast<int>(end));
    }
    const cpu::AttentionParts parts{max.data(), factor.data(), lanes.data(), out.data(), tiles(), static_cast<int>(rows), run_.head_dim};
    for (std::size_t r = 0; r < rows; ++r)
      set_.attention.fold_row(parts, static_cast<int>(r), &max_[r], lanes_.data() + r * 16, out_.data() + r * dim_);
  }
  std::vector<float> result(std::size_t head, std::size_t row) const {
    const std::size_t at = head * stride_ + row;
    set_.attention.finish(lanes_.data() + at * 16, out_.data() + at * dim_, static_cast<int>(dim_), y_.data());
    return {y_.data(), y_.data() + dim_};
  }
  bool same_result(const Queries& whole, std::size_t from) const {
    for (std::size_t h = 0; h < heads_; ++h)
      for (std::size_t r = 0; r < rows_; ++r)
        if (!same_bits(result(h, r), whole.result(h, from + r))) return false;
    return true;
  }
  void add_to(Record& out) const {
    for (std::size_t h = 0; h < heads_; ++h)
      for (std::size_t r = 0; r < rows_; ++r) {
        const std::size_t at = h * stride_ + r;
        const std::string row = "head " + std::to_string(h) + ", row " + std::to_string(r);
        if (format_ == KvFormat::kInt8) {
          out.add(row + ", query", q_.data() + at * dim_, dim_);
          out.add(row + ", scale of the query", &q_scale_[at], 1);
          out.add(row + ", sum of the query", &q_sum_[at], 1);
        }
        out.add(row + ", maximum", &max_[at], 1);
        out.add(row + ", sums", lanes_.data() + at * 16, 16);
        const std::vector<float> y = result(h, r);
        out.add(row + ", result", y.data(), y.size());
        out.expect(std::all_of(y.begin(), y.end(), [](float x) { return std::isfinite(x); }), row + " saw a slot that nobody wrote");
      }
  }

 private:
  const cpu::KernelSet& set_;
  KvFormat format_;
  std::size_t rows_, stride_, dim_, heads_, all_;
  GuardedArray<std::int32_t> positions_;
  GuardedArray<std::int8_t> q_;
  GuardedArray<float> q_scale_;
  GuardedArray<std::int32_t> q_sum_;
  GuardedArray<float> q_float_, max_, lanes_, out_, y_;
  cpu::AttentionRun run_;
};

void run_shape(const Shape& shape, KvFormat format, const cpu::KernelSet& set, const Setting& setting, Record& out) {
  const Layer layer(set, shape, format, setting.edge);
  out.add(shape.name() + ", cache", layer.slabs());
  const Queries whole(set, shape, format, layer, setting.edge, 0, shape.rows());
  whole.attend(0, whole.tiles());
  whole.add_to(out);
  if (!setting.thorough) return;
  const Queries by_tile(set, shape, format, layer, setting.edge, 0, shape.rows());
  for (int tile = 0; tile < by_tile.tiles(); ++tile) by_tile.attend(tile, tile + 1);
  out.expect(by_tile.same_result(whole, 0), shape.name() + ": tile by tile");
  if (shape.positions == 1) {
    const Queries together(set, shape, format, layer, setting.edge, 0, shape.rows(), Padding::kTogether);
    together.attend(0, together.tiles());
    out.expect(together.same_result(whole, 0), shape.name() + ": heads together");
    const Queries in_parts(set, shape, format, layer, setting.edge, 0, shape.rows(), Padding::kTogether);
    in_parts.attend_in_parts(setting.edge);
    out.expect(in_parts.same_result(whole, 0), shape.name() + ": in parts");
  }
  for (std::size_t from = 0; from < shape.rows();) {
    const std::size_t to = std::min(shape.rows(), from + 1 + (from + shape.rows()) % 7);
    const Queries some(set, shape, format, layer, setting.edge, from, to);
    some.attend(0, some.tiles());
    out.expect(some.same_result(whole, from), shape.name() + ": rows " + std::to_string(from) + " to " + std::to_string(to - 1) + " alone");
    from = to;
  }
}

/// A few shapes at every head size; every number of rows and position in a block at one with kernels of its own and one without.
std::vector<Shape> shapes_of(std::size_t dim) {
  std::vector<Shape> shapes = {{dim, 1, 0, 1, 1},   {dim, 2, 31, 2, 3}, {dim, 3, 64, 1, 4},
                               {dim, 1, 60, 10, 6}, {dim, 2, 0, 33, 1}, {dim, 2, 95, 1, 9}};
  if (is_sanitized()) return shapes;
  shapes.insert(shapes.end(), {{dim, 5, 40, 1, 3}, {dim, 1, 90, 64, 1}, {dim, 2, 127, 5, 3}});
  const bool all = dim == 16 || dim == 64;
  for (std::size_t rows = 1; rows <= (all ? static_cast<std::size_t>(cpu::kMaxAttentionRows) : 9); ++rows)
    shapes.push_back({dim, 1, 30 + rows % 5, rows, 1});
  for (std::size_t first = 0; all && first < 70; ++first) shapes.push_back({dim, 1, first, 1, 1 + first % 5});
  return shapes;
}

}  // namespace

std::vector<Case> attention_cases() {
  std::vector<Case> cases;
  for (const KvFormat format : kAllKvFormats)
    for (const std::size_t dim : {16, 32, 48, 64, 80, 96, 112, 128, 256, 512})
      cases.push_back({std::string("attention ") + name_of(format) + " head " + std::to_string(dim), "several",
                       [=](const cpu::KernelSet& set, const Setting& setting, Record& out) {
                         for (const Shape& shape : shapes_of(dim)) run_shape(shape, format, set, setting, out);
                       }});
  return cases;
}

}  // namespace troupe::kernels::testing
