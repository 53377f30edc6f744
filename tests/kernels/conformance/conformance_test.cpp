// Kernel conformance: every level that this machine runs writes the bits of the scalar reference, whatever the shape, in memory that ends
// where the tables say it ends; and the lists that the cases run over are whole.
#include "kernels/cpu/pack.h"
#include "tests/kernels/conformance/values.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

using namespace troupe::kernels;
using namespace troupe::kernels::testing;

namespace {

std::string text_of(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "; ";
  return text;
}

void check_cases(const std::vector<Case>& cases) {
  const std::vector<cpu::Isa> levels = cpu::available_isas();
  for (const Case& c : cases) {
    CAPTURE(c.op, c.shape);
    Record expected;
    c.run(cpu::kernels_for(cpu::Isa::kRef), {Edge::kEnd, false}, expected);
    CHECK(text_of(expected.broken()) == "");
    REQUIRE(expected.bytes() > 0);
    for (const cpu::Isa level : levels)
      for (const Edge edge : {Edge::kEnd, Edge::kBegin}) {
        if (edge == Edge::kBegin ? is_sanitized() : level == cpu::Isa::kRef) continue;  // both ends guarded at once; done above
        Record got;
        c.run(cpu::kernels_for(level), {edge, edge == Edge::kEnd}, got);
        CAPTURE(std::string(cpu::isa_name(level)), edge == Edge::kEnd);
        CHECK(got.difference(expected) == "");
        CHECK(text_of(got.broken()) == "");
      }
  }
}

template <typename Kernels, typename Chosen>
void check_list(std::span<const cpu::ListRow<Kernels>> list, Chosen chosen) {
  REQUIRE_FALSE(list.empty());
  CHECK(list.back().isa == cpu::Isa::kRef);
  for (std::size_t i = 1; i < list.size(); ++i) CHECK(list[i].isa < list[i - 1].isa);
  for (const auto& row : list) {
    CAPTURE(std::string(cpu::isa_name(row.isa)));
    CHECK(&chosen(cpu::kernels_for(row.isa)) == &row.kernels);  // so running over the levels runs every row
  }
}

cpu::PanelFormat packed_format(StorageType type, WeightFormat weights) {
  Random random(1);
  const FileMatrix matrix = random_matrix(random, type, 1, std::max(block_of(type), std::size_t{32}));
  const MatrixSource source = matrix.source();
  const std::unique_ptr<Weight> weight = test_backend("ref", 1, Activations::kInt8Group32, weights)->pack({&source, 1});
  return static_cast<const cpu::PackedWeight&>(*weight).segments().front().format;
}

/// `all` holds each value once, and the suite's names know exactly these.
template <typename Enum, std::size_t kCount>
void check_enum(const Enum (&all)[kCount]) {
  const std::set<Enum> values(std::begin(all), std::end(all));
  CHECK(values.size() == kCount);
  for (unsigned i = 0; i < 256; ++i) {
    CAPTURE(i);
    const auto value = static_cast<Enum>(i);
    CHECK((std::string(name_of(value)) != "?") == (values.count(value) == 1));
  }
}

}  // namespace

TEST_CASE("every level multiplies like the reference", "[conformance]") { check_cases(matmul_cases()); }
TEST_CASE("every level does rows like the reference", "[conformance]") { check_cases(row_cases()); }
TEST_CASE("every level attends like the reference", "[conformance]") { check_cases(attention_cases()); }
TEST_CASE("every level scans logits like the reference", "[conformance]") { check_cases(logit_cases()); }

TEST_CASE("every level writes and sums wire rows like the reference", "[conformance]") { check_cases(wire_cases()); }

TEST_CASE("every row of every list serves its level, best first, the reference last", "[conformance]") {
  check_list(cpu::matmul_list(), [](const cpu::KernelSet& set) -> const cpu::MatmulKernels& { return set.matmul; });
  check_list(cpu::bfloat_list(), [](const cpu::KernelSet& set) -> const cpu::BfloatKernels& { return set.bfloat; });
  check_list(cpu::row_list(), [](const cpu::KernelSet& set) -> const cpu::RowKernels& { return set.rows; });
  check_list(cpu::attention_list(), [](const cpu::KernelSet& set) -> const cpu::AttentionKernels& { return set.attention; });
  check_list(cpu::logit_list(), [](const cpu::KernelSet& set) -> const cpu::LogitKernels& { return set.logits; });
  check_list(cpu::wire_list(), [](const cpu::KernelSet& set) -> const cpu::WireKernels& { return set.wire; });
  const std::vector<cpu::Isa> here = cpu::available_isas();
  for (const cpu::Isa level : cpu::all_isas())
    if (std::find(here.begin(), here.end(), level) == here.end())
      WARN("not run, this machine lacks it: " << std::string(cpu::isa_name(level)));
}

TEST_CASE("the cases cover every entry of the tables and every value of the lists", "[conformance]") {
  CHECK(uncovered_tables() == "");
  check_enum(kAllStorageTypes);
  check_enum(kAllActivations);
  check_enum(kAllKvFormats);
  check_enum(kAllWireFormats);
  check_enum(cpu::kAllPanelFormats);
  std::set<cpu::PanelFormat> packed;
  for (const StorageType type : kAllStorageTypes)
    for (const WeightFormat weights : kAllWeightFormats) packed.insert(packed_format(type, weights));
  for (const cpu::PanelFormat format : cpu::kAllPanelFormats) {
    CAPTURE(name_of(format));
    CHECK(packed.count(format) == 1);
  }
}

TEST_CASE("the guards of the suite hold", "[conformance]") {
  // A suite that compares nothing would pass.
  Record a, b, c;
  const float values[] = {1.0F, 2.0F, 3.0F};
  a.add("first", values, 2);
  a.add("second", values, 1);
  b.add("first", values, 2);
  b.add("second", values + 1, 1);
  c.add("first", values, 2);
  CHECK(a.difference(a) == "");
  CHECK(a.difference(b) == "second, byte 2");
  CHECK(a.difference(c) == "second, byte 0");
  CHECK(c.difference(a) == "the record ends");
  CHECK(a.hash() != b.hash());
  for (const std::size_t count : {1, 16, 5000}) {
    const GuardedArray<float> end(count, Edge::kEnd), begin(count, Edge::kBegin);
    CHECK(reinterpret_cast<std::uintptr_t>(end.data()) % alignof(float) == 0);
    CHECK(reinterpret_cast<std::uintptr_t>(begin.data()) % 64 == 0);
    CHECK_FALSE(std::equal(end.data(), end.data() + count, end.data()));  // NaN until written
  }
}
