// Matrix products: every storage type as the packer lays it out, every activation scheme, rows and columns around all tile sizes. One
// product of all rows and columns is recorded; then rows, columns and panels are cut in every way, in arrays of exactly the size that
// the cut needs, and no bit may change nor anything beside the cut be touched.
#include "kernels/cpu/pack.h"
#include "tests/kernels/conformance/values.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace troupe::kernels::testing {
namespace {

constexpr std::size_t kRows = 70, kColumns = 150;  // beyond a block of 64 rows; three panels and a part of a fourth
constexpr std::size_t kTerms = 2;

/// A packed matrix and its inputs: kRows rows of all sizes of numbers.
struct Operands {
  cpu::PanelFormat format = cpu::PanelFormat::kF32;
  std::size_t inputs = 0, panel_bytes = 0;
  std::vector<std::uint8_t> panels;
  std::vector<float> x;         // [kTerms * kRows][inputs]: inputs in two terms take two rows for one of y
  std::vector<float> y_before;  // [kRows][kColumns], for products that are added to y
};

Operands make_operands(StorageType type, WeightFormat weights, Activations activations, std::size_t inputs) {
  Random random(inputs + 100 * static_cast<std::size_t>(type));
  const auto backend = test_backend("ref", 1, activations, weights);
  const FileMatrix matrix = random_matrix(random, type, kColumns, inputs);
  const MatrixSource source = matrix.source();
  const std::unique_ptr<Weight> weight = backend->pack({&source, 1});
  const cpu::WeightSegment& segment = static_cast<const cpu::PackedWeight&>(*weight).segments().front();
  Operands o{segment.format, inputs, segment.panel_bytes, {segment.bytes, segment.bytes + segment.panels * segment.panel_bytes}, {}, {}};
  constexpr Magnitude kOfRow[] = {Magnitude::kOrdinary, Magnitude::kMixed,    Magnitude::kOrdinary, Magnitude::kZero,
                                  Magnitude::kMixed,    Magnitude::kDenormal, Magnitude::kOrdinary, Magnitude::kHuge};
  o.y_before = normals(random, kRows * kColumns, 10.0F);
  for (std::size_t row = 0; row < kTerms * kRows; ++row) {
    const std::vector<float> values = values_of(random, inputs, kOfRow[row % std::size(kOfRow)]);
    o.x.insert(o.x.end(), values.begin(), values.end());
  }
  return o;
}

/// A part of the product: rows [first_row, first_row + rows) by the first `columns` columns, computed in a call or in pieces.
struct Cut {
  std::size_t first_row = 0, rows = kRows, columns = kColumns;
  std::size_t y_gap = 0, x_gap = 0;  // between rows
};

/// What an int8 product can do beside multiplying.
struct Variant {
  std::size_t terms = 1;
  bool add = false;
  std::string name() const { return std::string("product") + (terms == kTerms ? " of two terms" : "") + (add ? ", added" : ""); }
};
constexpr Variant kVariants[] = {{1, false}, {1, true}, {kTerms, false}, {kTerms, true}};

/// One level's kernels and what they multiply.
struct Task {
  const cpu::KernelSet& set;
  const Operands& operands;
  Activations activations;
  Variant variant;
  Edge edge;
  bool is_bf16() const { return activations == Activations::kBf16; }
  bool is_int8() const { return !is_bf16() && activations != Activations::kFp32 && cpu::is_quantized(operands.format); }
};

/// Computes a cut in guarded memory.
class Product {
 public:
  Product(const Task& task, const Cut& cut)
      : task_(task),
        cut_(cut),
        panels_((cut.columns + cpu::kPanelColumns - 1) / cpu::kPanelColumns * task.operands.panel_bytes, task.edge),
        x_((cut.rows * task.variant.terms - 1) * x_stride() + task.operands.inputs, task.edge),
        y_((cut.rows - 1) * stride() + cut.columns, task.edge) {
    const Operands& o = task.operands;
    std::memcpy(panels_.data(), o.panels.data(), panels_.size());
    const std::size_t terms = task.variant.terms;
    for (std::size_t row = 0; row < cut.rows * terms; ++row)
      std::memcpy(x_row(row), &o.x[(cut.first_row * terms + row) * o.inputs], o.inputs * sizeof(float));
    fill_gap(y_.data(), y_.size());
    for (std::size_t row = 0; task.variant.add && row < cut.rows; ++row)
      std::memcpy(y_.data() + row * stride(), &o.y_before[(cut.first_row + row) * kColumns], cut.columns * sizeof(float));
    before_.assign(y_.data(), y_.data() + y_.size());
    if (task.is_bf16()) {
      rounded_ = std::make_unique<GuardedArray<float>>(cut.rows * rounded_stride() - cut.x_gap, task.edge);
      for (std::size_t row = 0; row < cut.rows; ++row)
        task.set.bfloat.round_row(x_row(row), static_cast<int>(o.inputs), rounded_->data() + row * rounded_stride());
    }
    if (!task.is_int8()) return;
    quantized_ =
        std::make_unique<GuardedRows>(cut.rows * terms, o.inputs, cut.x_gap, task.activations == Activations::kInt8Group32, task.edge);
    for (std::size_t row = 0; row < cut.rows * terms; ++row)
      task.set.matmul.quantize_row(x_row(row), static_cast<int>(o.inputs), quantized_->rows, row);
  }

  void run() { run(0, cut_.rows, 0, panels()); }
  void run(std::size_t row0, std::size_t row1, std::size_t panel0, std::size_t panel1) {
    const Operands& o = task_.operands;
    if (task_.is_int8())
      task_.set.matmul.multiply_int8({o.format, panels_.data(), o.panel_bytes, static_cast<int>(o.inputs / cpu::kGroup), cut_.columns,
                                      quantized_->rows, y_.data(), stride(), task_.variant.terms, task_.variant.add},
                                     row0, row1, panel0, panel1);
    else if (task_.is_bf16())
      task_.set.bfloat.multiply({o.format, panels_.data(), o.panel_bytes, static_cast<int>(o.inputs), cut_.columns, rounded_->data(),
                                 rounded_stride(), y_.data(), stride()},
                                row0, row1, panel0, panel1);
    else
      task_.set.matmul.multiply_float(
          {o.format, panels_.data(), o.panel_bytes, static_cast<int>(o.inputs), cut_.columns, x_.data(), x_stride(), y_.data(), stride()},
          row0, row1, panel0, panel1);
  }

  std::size_t panels() const { return panels_.size() / task_.operands.panel_bytes; }
  const float* row(std::size_t i) const { return y_.data() + i * stride(); }
  const GuardedArray<float>& all() const { return y_; }
  /// Rows [row0, row1) x columns [column0, column1) hold the results of `whole`, everything else is as it was.
  bool agrees(const Product& whole, std::size_t row0, std::size_t row1, std::size_t column0, std::size_t column1) const {
    std::vector<float> expected = before_;
    for (std::size_t i = row0; i < row1; ++i)
      std::memcpy(&expected[i * stride() + column0], whole.row(cut_.first_row + i) + column0, (column1 - column0) * sizeof(float));
    return same_bits(y_.data(), expected.data(), expected.size());
  }

 private:
  std::size_t stride() const { return cut_.columns + cut_.y_gap; }
  std::size_t x_stride() const { return task_.operands.inputs + cut_.x_gap; }
  std::size_t rounded_stride() const { return (task_.operands.inputs + 15) / 16 * 16 + cut_.x_gap; }
  float* x_row(std::size_t row) const { return x_.data() + row * x_stride(); }

  const Task& task_;
  Cut cut_;
  GuardedArray<std::uint8_t> panels_;
  GuardedArray<float> x_, y_;
  std::vector<float> before_;  // what y held
  std::unique_ptr<GuardedRows> quantized_;
  std::unique_ptr<GuardedArray<float>> rounded_;  // x as the level's round_row leaves it
};

/// All numbers from 1 to `most`, or those around the tile sizes.
std::vector<std::size_t> counts(std::size_t most, bool all) {
  std::vector<std::size_t> some;
  for (std::size_t n = 1; n <= most; ++n)
    if (all || n <= 9 || n == most || n % 16 <= 1 || n % 16 == 15) some.push_back(n);
  return some;
}

void check_row_counts(const Task& task, bool all, const Product& whole, Record& out) {
  for (const std::size_t rows : counts(kRows, all)) {
    const Cut cut{rows * 13 % (kRows - rows + 1), rows, kColumns, rows % 3 * 5, rows % 4 * 16};
    Product part(task, cut);
    part.run();
    out.expect(part.agrees(whole, 0, rows, 0, kColumns),
               task.variant.name() + ": " + std::to_string(rows) + " rows from row " + std::to_string(cut.first_row));
  }
}

void check_column_counts(const Task& task, bool all, const Product& whole, Record& out) {
  constexpr std::size_t kSomeRows[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 17};
  for (const std::size_t columns : counts(kColumns, all)) {
    const Cut cut{0, kSomeRows[columns % std::size(kSomeRows)], columns, columns % 4, 0};
    Product part(task, cut);
    part.run();
    out.expect(part.agrees(whole, 0, cut.rows, 0, columns),
               task.variant.name() + ": " + std::to_string(columns) + " columns of " + std::to_string(cut.rows) + " rows");
  }
}

void check_ranges(const Task& task, const Product& whole, Record& out) {
  Random random(task.operands.inputs);
  for (int i = 0; i < (is_sanitized() ? 4 : 10); ++i) {
    Product part(task, {0, kRows, kColumns, 3, 16});
    const std::size_t row0 = random.below(kRows), row1 = random.between(row0, kRows);
    const std::size_t panel0 = random.below(part.panels()), panel1 = random.between(panel0 + 1, part.panels());
    part.run(row0, row1, panel0, panel1);
    const std::size_t column0 = panel0 * cpu::kPanelColumns, column1 = std::min(kColumns, panel1 * cpu::kPanelColumns);
    out.expect(part.agrees(whole, row0, row1, column0, column1), task.variant.name() + ": rows [" + std::to_string(row0) + ", " +
                                                                     std::to_string(row1) + ") of panels [" + std::to_string(panel0) +
                                                                     ", " + std::to_string(panel1) + ")");
  }
}

/// The number of inputs at which every number of rows and columns is tried.
std::size_t all_counts_at(StorageType type) { return std::max(block_of(type), std::size_t{96}); }

Case product_case(StorageType type, WeightFormat weights, Activations activations, std::size_t inputs) {
  return {std::string("matmul multiply ") + name_of(type) + (weights == WeightFormat::kFile ? " " : " by channel, ") + name_of(activations),
          std::to_string(inputs) + " inputs", [=](const cpu::KernelSet& set, const Setting& setting, Record& out) {
            const Operands operands = make_operands(type, weights, activations, inputs);
            for (const Variant& variant : kVariants) {
              const Task task{set, operands, activations, variant, setting.edge};
              const bool plain = variant.terms == 1 && !variant.add;
              if (!plain && !task.is_int8()) continue;
              Product whole(task, {});
              whole.run();
              out.add(variant.name(), whole.all());
              if (!setting.thorough) continue;
              const bool all = plain && inputs == all_counts_at(type) && !is_sanitized();
              check_row_counts(task, all, whole, out);
              check_column_counts(task, all, whole, out);
              check_ranges(task, whole, out);
            }
          }};
}

/// Odd numbers of blocks; for floats also odd numbers of inputs, and more of them than a kernel takes at a time.
std::vector<std::size_t> inputs_of(StorageType type) {
  if (is_sanitized()) return {all_counts_at(type)};
  switch (block_of(type)) {
    case 1: return {1, 2, 5, 31, 33, 96, 257};
    case 32: return {32, 64, 96, 160, 288};
    default: return {block_of(type), 2 * block_of(type)};
  }
}

}  // namespace

std::vector<Case> matmul_cases() {
  std::vector<Case> cases;
  for (const StorageType type : kAllStorageTypes)
    for (const Activations activations : kAllActivations)
      for (const std::size_t inputs : inputs_of(type)) cases.push_back(product_case(type, WeightFormat::kFile, activations, inputs));
  // Quantized anew, all types have one layout.
  for (const Activations activations : kAllActivations)
    for (const std::size_t inputs : inputs_of(StorageType::kQ8_0))
      cases.push_back(product_case(StorageType::kQ8_0, WeightFormat::kInt8Channel, activations, inputs));
  return cases;
}

}  // namespace troupe::kernels::testing
