// Attention: every cache format over head sizes with and without kernels of their own, rows around the tile sizes, positions around the
// borders of blocks, block tables out of order. Slots behind the last position stay 0xff: NaN scales and values that must not be seen.
#include "tests/kernels/conformance/values.h"

#include <algorithm>
#include <cmath>

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
  std::size_t stride() const { return (rows() + 15) / 16 * 16; }
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

/// Queries and fold state in arrays of exactly the stated size. What pads a row's arrays to 16 is 0xff.
class Queries {
 public:
  /// Rows [from, to) of the shape's.
  Queries(const cpu::KernelSet& set, const Shape& shape, KvFormat format, const Layer& layer, Edge edge, std::size_t from, std::size_t to)
      : set_(set),
        format_(format),
        rows_(to - from),
        stride_((rows_ + 15) / 16 * 16),
        dim_(shape.dim),
        heads_(shape.heads),
        positions_(rows_, edge),
        q_(format == KvFormat::kInt8 ? heads_ * stride_ * dim_ : 0, edge),
        q_scale_(heads_ * stride_, edge),
        q_sum_(heads_ * stride_, edge),
        q_float_(format == KvFormat::kInt8 ? 0 : heads_ * stride_ * dim_, edge),
        max_(heads_ * stride_, edge),
        lanes_(heads_ * stride_ * 16, edge),
        out_(heads_ * stride_ * dim_, edge),
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
  std::size_t rows_, stride_, dim_, heads_;
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
  for (std::size_t from = 0; from < shape.rows();) {
    const std::size_t to = std::min(shape.rows(), from + 1 + (from + shape.rows()) % 7);
    const Queries some(set, shape, format, layer, setting.edge, from, to);
    some.attend(0, some.tiles());
    out.expect(some.same_result(whole, from), shape.name() + ": rows " + std::to_string(from) + " to " + std::to_string(to - 1) + " alone");
    from = to;
  }
}

/// Every number of rows and border of a block at a small head; a few at each other size.
std::vector<Shape> shapes_of(std::size_t dim) {
  std::vector<Shape> shapes = {{dim, 1, 0, 1, 1}, {dim, 2, 31, 2, 3}, {dim, 3, 64, 1, 4}, {dim, 1, 60, 10, 6}, {dim, 2, 0, 33, 1}};
  if (is_sanitized()) return shapes;
  shapes.insert(shapes.end(), {{dim, 1, 95, 1, 9}, {dim, 1, 90, 64, 1}, {dim, 2, 127, 5, 3}});
  if (dim > 64) return shapes;
  for (std::size_t rows = 1; rows <= static_cast<std::size_t>(cpu::kMaxAttentionRows); ++rows)
    shapes.push_back({dim, 1, 30 + rows % 5, rows, 1});
  for (std::size_t first = 0; first < 70; ++first) shapes.push_back({dim, 1, first, 1, 1 + first % 5});
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
