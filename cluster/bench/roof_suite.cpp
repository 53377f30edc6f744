// See roof_suite.h.
#include "cluster/bench/roof_suite.h"

#include "runtime/weights/format_table.h"
#include "runtime/weights/gguf_file.h"

#include <algorithm>
#include <new>
#include <unistd.h>

namespace troupe::cluster::bench {
namespace {

constexpr std::chrono::milliseconds kPeakTime{30}, kProductTime{30};
constexpr std::size_t kDramBuffer = std::size_t{1} << 30;
/// Up to so many rows the weights' way from memory counts, so all the model's matrices of a kind are streamed in turn.
constexpr std::uint32_t kStreamedRows = 32;

bool is_float(kernels::StorageType type) {
  return type == kernels::StorageType::kF32 || type == kernels::StorageType::kF16 || type == kernels::StorageType::kBF16;
}

}  // namespace

RoofSuite::RoofSuite(EngineRuns& runs, std::vector<Product> products, std::vector<std::uint32_t> rows, std::string activations,
                     std::string isa, std::uint32_t repetitions)
    : runs_(runs),
      products_(std::move(products)),
      rows_(std::move(rows)),
      activations_(std::move(activations)),
      isa_(std::move(isa)),
      repetitions_(repetitions) {
  const std::size_t threads = runs.engine().backend().threads();
  for (std::size_t n = 1; n < threads; n *= 2) thread_counts_.push_back(n);
  thread_counts_.push_back(threads);
  for (const std::string& level : kernels::cpu_isa_levels())
    if (level != "ref") levels_.push_back(level);
  if (levels_.empty()) levels_.push_back("ref");
}

/// Memory is the same for all levels, so only the level in use reads it.
std::size_t RoofSuite::dram_buffer(const std::string& isa) const {
  if (isa != isa_) return 0;
  const long pages = sysconf(_SC_AVPHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  const std::size_t free = pages > 0 && page > 0 ? static_cast<std::size_t>(pages) * static_cast<std::size_t>(page) : 0;
  return free >= 4 * kDramBuffer ? kDramBuffer : kDramBuffer / 4;
}

void RoofSuite::take_peaks(const kernels::Peaks& peaks) {
  kernels::Peaks& best = peaks_[{peaks.isa, peaks.threads}];
  best.isa = peaks.isa;
  best.threads = peaks.threads;
  for (double kernels::Peaks::*field : {&kernels::Peaks::int8_gops, &kernels::Peaks::fp32_gflops, &kernels::Peaks::bf16_gflops,
                                        &kernels::Peaks::l2_gbps, &kernels::Peaks::dram_gbps})
    best.*field = std::max(best.*field, peaks.*field);
}

std::vector<Measurement> RoofSuite::measurements() {
  std::vector<Measurement> out;
  for (const std::string& level : levels_)
    for (const std::size_t threads : thread_counts_)
      out.push_back({"peaks of " + level + " with " + std::to_string(threads), repetitions_, [this, level, threads] {
                       kernels::PeakOptions options{threads, level, kPeakTime, dram_buffer(level)};
                       try {
                         take_peaks(kernels::measure_peaks(options));
                       } catch (const std::bad_alloc&) {  // then without the figure that needs so much memory
                         options.buffer_bytes = 0;
                         take_peaks(kernels::measure_peaks(options));
                       }
                       return true;
                     }});
  for (std::size_t i = 0; i < products_.size(); ++i)
    for (const std::uint32_t rows : rows_)
      out.push_back({"product " + products_[i].name + " of " + std::to_string(rows) + " rows", repetitions_, [this, i, rows] {
                       const Product& p = products_[i];
                       const double elements = static_cast<double>(p.outputs) * static_cast<double>(p.inputs);
                       const auto& format = weights::format_of(p.type);
                       const auto bytes = static_cast<std::size_t>(elements / static_cast<double>(format.block_elements) *
                                                                   static_cast<double>(format.block_bytes * p.times));
                       runs_.on_engine_thread([&] {
                         rates_[{i, rows}].push_back(kernels::measure_product(runs_.engine().backend(), {p.type, p.outputs, p.inputs, rows},
                                                                              kProductTime, rows <= kStreamedRows ? bytes : 0));
                       });
                       return true;
                     }});
  return out;
}

/// The peak of the arithmetic that this product uses.
double RoofSuite::product_peak(const Product& product) const {
  const auto found = peaks_.find({isa_, runs_.engine().backend().threads()});
  if (found == peaks_.end()) return 0;
  const kernels::Peaks& peaks = found->second;
  if (activations_ == "bf16") return peaks.bf16_gflops > 0 ? peaks.bf16_gflops : peaks.fp32_gflops;
  return activations_ == "fp32" || is_float(product.type) ? peaks.fp32_gflops : peaks.int8_gops;
}

void RoofSuite::report(Report& report) const {
  for (const auto& [key, peaks] : peaks_) {
    const auto add = [&](const char* what, double value, const char* unit) {
      if (value > 0) report.peaks.push_back({what, key.first, key.second, value, unit});
    };
    add("int8 products", peaks.int8_gops, "GOPS");
    add("bf16 products", peaks.bf16_gflops, "GFLOPS");
    add("fp32 products", peaks.fp32_gflops, "GFLOPS");
    add("L2 read", peaks.l2_gbps, "GB/s");
    add("DRAM read", peaks.dram_gbps, "GB/s");
  }
  const std::size_t threads = runs_.engine().backend().threads();
  const auto of_level = peaks_.find({isa_, threads});
  for (const auto& [key, rates] : rates_) {
    const Product& p = products_[key.first];
    std::vector<double> gops, gbps;
    for (const kernels::ProductRate& rate : rates) {
      gops.push_back(rate.gops);
      gbps.push_back(rate.gbps);
    }
    report.products.push_back({p.name, p.format, static_cast<std::uint32_t>(p.outputs), static_cast<std::uint32_t>(p.inputs), key.second,
                               isa_, threads, median(gops), product_peak(p), median(gbps),
                               of_level == peaks_.end() ? 0 : of_level->second.dram_gbps});
  }
}

std::vector<RoofSuite::Product> products_of(const std::string& model_path, const model::ModelConfig& c) {
  auto file = weights::GgufFile::open(model_path);
  if (!file) return {};
  std::vector<RoofSuite::Product> out;
  const auto add = [&](const char* name, const char* tensor, std::size_t outputs, std::size_t inputs, std::size_t times) {
    const weights::Tensor* found = (*file)->find(tensor);
    if (found == nullptr) return;
    out.push_back({name, found->type, std::string(weights::format_of(found->type).name), outputs, inputs, times});
  };
  const std::size_t q = c.q_heads * c.head_dim, kv = c.kv_heads * c.head_dim;
  add("QKV", "blk.0.attn_q.weight", q + 2 * kv, c.hidden, c.layers);
  add("attention output", "blk.0.attn_output.weight", c.hidden, q, c.layers);
  add("gate, up", "blk.0.ffn_gate.weight", 2 * c.ffn, c.hidden, c.layers);
  add("down", "blk.0.ffn_down.weight", c.hidden, c.ffn, c.layers);
  add("head", c.tied_embeddings ? "token_embd.weight" : "output.weight", c.vocabulary, c.hidden, 1);
  return out;
}

std::string weight_formats(const std::string& model_path) {
  auto file = weights::GgufFile::open(model_path);
  if (!file) return {};
  std::map<std::string_view, std::size_t> bytes;
  std::size_t all = 0;
  for (const weights::Tensor& tensor : (*file)->tensors()) {
    if (tensor.shape.size() < 2) continue;
    bytes[weights::format_of(tensor.type).name] += tensor.bytes;
    all += tensor.bytes;
  }
  std::vector<std::pair<std::size_t, std::string_view>> order;
  for (const auto& [name, size] : bytes)
    if (size * 20 >= all) order.emplace_back(size, name);  // 5 % and more
  std::sort(order.rbegin(), order.rend());
  std::string text;
  for (const auto& [size, name] : order) text += (text.empty() ? "" : " + ") + std::string(name);
  return text;
}

}  // namespace troupe::cluster::bench
