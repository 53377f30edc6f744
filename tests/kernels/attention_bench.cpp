// Micro-benchmark of attention, the rows around it, embedding and sampling; no test. Prints medians.
//   attention_bench [part of a name] [threads]     level: TROUPE_CPU_ISA
// Names: decode/..., shared/..., prefill/..., append/..., rows/..., embed/..., sample/...
// shared/.../b16/p4000/own96: 16 sequences that begin with the same 4000 tokens, and 96 of their own. The same blocks are read once in that
// order, and once with each sequence's own blocks in front, so that no two begin alike; pairs of calls in turn.
#include "tests/kernels/support.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <numeric>

using namespace troupe::kernels;
using namespace troupe::kernels::testing;

namespace {

using Clock = std::chrono::steady_clock;

/// Median seconds of a call.
double median_seconds(const std::function<void()>& call) {
  call();
  std::vector<double> times;
  const auto begin = Clock::now();
  while (times.size() < 5 || (Clock::now() - begin < std::chrono::milliseconds(250) && times.size() < 2000)) {
    const auto start = Clock::now();
    call();
    times.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

struct Heads {
  const char* name;
  std::size_t q, kv, dim;
};
constexpr Heads kHeads[] = {{"hd64_g3", 9, 3, 64}, {"hd64_g8", 32, 4, 64}, {"hd128_g4", 16, 4, 128}};
constexpr struct {
  const char* name;
  KvFormat format;
} kFormats[] = {{"int8", KvFormat::kInt8}, {"fp16", KvFormat::kFp16}, {"fp32", KvFormat::kFp32}};

class Bench {
 public:
  Bench(std::string filter, std::size_t threads) : filter_(std::move(filter)), threads_(threads) {
    CpuOptions options;
    options.threads = threads;
    backend_ = make_cpu_backend(options);
    std::printf("%s\n", backend_->description().c_str());
  }
  void run() {
    for (const auto& format : kFormats)
      for (const Heads& heads : kHeads) {
        const std::string tail = std::string("/") + format.name + "/" + heads.name;
        for (const std::size_t context : {128, 1024, 4096})
          for (const std::size_t batch : {1, 2, 16, 32}) decode("decode" + tail, heads, format.format, batch, context, 1);
        decode("decode_dram" + tail, heads, format.format, 16, 4096, 8);
        for (const std::size_t batch : {2, 4, 16, 32})
          for (const std::size_t prefix : {0, 32, 1024, 2048, 4000, 4064})
            shared("shared" + tail, heads, format.format, batch, prefix, 4096 - prefix);
        for (const std::size_t batch : {16, 32}) {
          shared("shared" + tail, heads, format.format, batch, 128, 128);
          shared("shared" + tail, heads, format.format, batch, 1024, 96);
          shared("shared_chunk" + tail, heads, format.format, batch, 4000, 96, 128);
        }
        for (const std::size_t rows : {512, 2048, 8192}) prefill("prefill" + tail, heads, format.format, rows);
        for (const std::size_t rows : {1, 32, 512})
          for (const bool spread : {false, true}) append("append" + tail + (spread ? "/spread" : ""), heads, format.format, rows, spread);
      }
    rows();
    embed();
    sample();
  }

 private:
  bool wanted(const std::string& name) const { return name.find(filter_) != std::string::npos; }

  /// Block tables of `batch` sequences, blocks in ascending order.
  std::vector<SequenceRows> sequences(std::size_t batch, std::size_t rows, std::size_t context) {
    const std::size_t each = (context + 31) / 32;
    table_.resize(batch * each);
    std::iota(table_.begin(), table_.end(), 0U);
    std::vector<SequenceRows> all;
    for (std::size_t i = 0; i < batch; ++i)
      all.push_back({i * rows, rows, static_cast<std::uint32_t>(context - rows), table_.data() + i * each});
    return all;
  }

  void decode(const std::string& what, const Heads& h, KvFormat format, std::size_t batch, std::size_t context, std::size_t layers) {
    const std::string name = what + "/b" + std::to_string(batch) + "/n" + std::to_string(context);
    if (!wanted(name)) return;
    const auto all = sequences(batch, 1, context);
    const auto kv = filled(h, format, layers, table_.size());
    OwnedRows qkv(batch, (h.q + 2 * h.kv) * h.dim), out(batch, h.q * h.dim);
    fill(qkv);
    std::size_t layer = 0;
    const double s = median_seconds([&] { backend_->attention(qkv.rows, h.q, all, *kv, layer++ % layers, out.rows); });
    const double tokens = static_cast<double>(batch * context * h.kv) * 1e-3;
    std::printf("%-44s %9.1f us  %6.2f us a 1000 tokens, kv head and thread  %6.1f GB/s\n", name.c_str(), s * 1e6,
                s * 1e6 / tokens * static_cast<double>(threads_), static_cast<double>(kv->bytes() / layers) / s * 1e-9);
  }

  /// `chunk`: rows of a prefill that goes on beside them.
  void shared(const std::string& what, const Heads& h, KvFormat format, std::size_t batch, std::size_t prefix, std::size_t own,
              std::size_t chunk = 0) {
    const std::string name = what + "/b" + std::to_string(batch) + "/p" + std::to_string(prefix) + "/own" + std::to_string(own);
    if (!wanted(name)) return;
    constexpr std::size_t kLayers = 8;
    const std::size_t common = prefix / 32, rest = own / 32, chunk_blocks = (chunk + 31) / 32, each = common + rest;
    std::vector<std::uint32_t> joined, apart;
    for (std::size_t i = 0; i < batch; ++i)
      for (std::size_t b = 0; b < each; ++b) {
        const auto block_of = [&](std::size_t at) { return static_cast<std::uint32_t>(at < common ? at : at + i * rest); };
        joined.push_back(block_of(b));
        apart.push_back(block_of((b + common) % each));
      }
    for (std::size_t b = 0; b < chunk_blocks; ++b) joined.push_back(static_cast<std::uint32_t>(common + batch * rest + b));
    const auto kv = filled(h, format, kLayers, common + batch * rest + chunk_blocks);
    OwnedRows qkv(batch + chunk, (h.q + 2 * h.kv) * h.dim), out(batch + chunk, h.q * h.dim);
    fill(qkv);
    const auto seconds = [&](const std::vector<std::uint32_t>& table, std::size_t layer) {
      std::vector<SequenceRows> all;
      for (std::size_t i = 0; i < batch; ++i) all.push_back({i, 1, static_cast<std::uint32_t>(each * 32 - 1), table.data() + i * each});
      if (chunk > 0) all.push_back({batch, chunk, 0, joined.data() + batch * each});
      const auto start = Clock::now();
      backend_->attention(qkv.rows, h.q, all, *kv, layer, out.rows);
      return std::chrono::duration<double>(Clock::now() - start).count();
    };
    double together = 1e9, alone = 1e9;  // the best: other work on the machine only ever adds
    const auto begin = Clock::now();
    for (std::size_t i = 0; i < 16 || Clock::now() - begin < std::chrono::milliseconds(400); ++i) {
      // In turns, each behind a call that left another layer in the caches.
      const bool first = i % 2 == 0;
      double& a = first ? together : alone;
      double& b = first ? alone : together;
      a = std::min(a, seconds(first ? joined : apart, i % kLayers));
      b = std::min(b, seconds(first ? apart : joined, (i + kLayers / 2) % kLayers));
    }
    std::printf("%-52s %9.1f us, apart %9.1f us, ratio %.3f\n", name.c_str(), together * 1e6, alone * 1e6, together / alone);
    std::fflush(stdout);
  }

  void prefill(const std::string& what, const Heads& h, KvFormat format, std::size_t rows) {
    const std::string name = what + "/s" + std::to_string(rows);
    if (!wanted(name)) return;
    const auto all = sequences(1, rows, rows);
    const auto kv = filled(h, format, 1, table_.size());
    OwnedRows qkv(rows, (h.q + 2 * h.kv) * h.dim), out(rows, h.q * h.dim);
    fill(qkv);
    const double s = median_seconds([&] { backend_->attention(qkv.rows, h.q, all, *kv, 0, out.rows); });
    const double operations = 2.0 * static_cast<double>(rows) * static_cast<double>(rows + 1) * static_cast<double>(h.q * h.dim);
    std::printf("%-44s %9.1f us  %6.1f GFLOPS of visible pairs\n", name.c_str(), s * 1e6, operations / s * 1e-9);
  }

  void append(const std::string& what, const Heads& h, KvFormat format, std::size_t rows, bool spread) {
    const std::string name = what + "/m" + std::to_string(rows);
    if (!wanted(name)) return;
    const auto all = sequences(1, rows, rows);
    const auto kv = backend_->make_kv_cache({1, h.kv, h.dim, table_.size(), format, spread});
    const RopeTable rope = make_rope_table(h.dim, 10000.0, rows);
    OwnedRows qkv(rows, (h.q + 2 * h.kv) * h.dim);
    fill(qkv);
    const std::vector<float> fresh = qkv.data;
    std::size_t calls = 0;
    const double s = median_seconds([&] {
      if (++calls % 64 == 0) qkv.data = fresh;  // spread rows grow
      backend_->rope_append(qkv.rows, h.q, all, rope, *kv, 0);
    });
    std::printf("%-44s %9.1f us  %6.2f us a row\n", name.c_str(), s * 1e6, s * 1e6 / static_cast<double>(rows));
  }

  std::unique_ptr<KvCache> filled(const Heads& h, KvFormat format, std::size_t layers, std::size_t blocks) {
    auto kv = backend_->make_kv_cache({layers, h.kv, h.dim, blocks, format});
    const RopeTable rope = make_rope_table(h.dim, 10000.0, 32);
    OwnedRows qkv(32, (h.q + 2 * h.kv) * h.dim);
    fill(qkv);
    for (std::uint32_t block = 0; block < blocks; ++block)
      for (std::size_t layer = 0; layer < layers; ++layer) {
        const SequenceRows s{0, 32, 0, &block};
        backend_->rope_append(qkv.rows, h.q, {&s, 1}, rope, *kv, layer);
      }
    return kv;
  }
  void fill(OwnedRows& rows) {
    for (std::size_t i = 0; i < rows.data.size(); ++i) rows.data[i] = random_.uniform() - 0.5F;
  }

  void rows() {
    const cpu::RowKernels& k = cpu::kernels_for(cpu::choose_isa("")).rows;
    const cpu::MatmulKernels& m = cpu::kernels_for(cpu::choose_isa("")).matmul;
    for (const int n : {576, 1536, 4096}) {
      const auto size = static_cast<std::size_t>(n), groups = size / 32;
      std::vector<float> x = normals(random_, 2 * size), w = normals(random_, size), y(size), scales(groups), sums(groups);
      std::vector<std::int8_t> q(size);
      std::vector<std::int32_t> halves(2 * groups);
      cpu::QuantizedRows to;
      to.values = q.data(), to.stride = size, to.scales = scales.data(), to.half_sums = halves.data(), to.scaled_sums = sums.data();
      const auto report = [&](const char* what, const std::function<void()>& call) {
        const std::string name = std::string("rows/") + what + "/" + std::to_string(n);
        if (!wanted(name)) return;
        const double s = median_seconds([&] {
          for (int i = 0; i < 100; ++i) call();
        });
        std::printf("%-44s %9.3f us a row\n", name.c_str(), s * 1e4);
      };
      report("rms_norm", [&] { k.rms_norm(x.data(), w.data(), n, 1e-5F, y.data()); });
      report("swiglu", [&] { k.swiglu(x.data(), x.data() + n, n, y.data()); });
      report("add", [&] { k.add(y.data(), x.data(), n); });
      report("quantize", [&] { m.quantize_row(x.data(), n, to, 0); });
      report("quantization_error", [&] { k.quantization_error(x.data(), n, to, 0, y.data()); });
    }
  }

  void embed() {
    for (const StorageType type : {StorageType::kQ8_0, StorageType::kQ4_1, StorageType::kQ6_K, StorageType::kBF16})
      for (const std::size_t count : {1, 32, 512}) {
        const std::string name = "embed/type" + std::to_string(static_cast<int>(type)) + "/m" + std::to_string(count);
        if (!wanted(name)) continue;
        const FileMatrix file = random_matrix(random_, type, 4096, 768);
        const MatrixSource source = file.source();
        const auto weight = backend_->pack({&source, 1});
        std::vector<std::uint32_t> ids(count);
        for (auto& id : ids) id = static_cast<std::uint32_t>(random_.below(4096));
        OwnedRows y(count, 768);
        const double s = median_seconds([&] { backend_->embed(*weight, ids, y.rows); });
        std::printf("%-44s %9.2f us  %6.2f us a row of 768\n", name.c_str(), s * 1e6, s * 1e6 / static_cast<double>(count));
      }
  }

  void sample() {
    constexpr std::size_t kWidth = 49152;
    for (const float spread : {1.0F, 3.0F})
      for (const std::size_t batch : {1, 32}) {
        const std::vector<float> logits = normals(random_, batch * kWidth, spread);
        const auto report = [&](const char* what, const std::function<void(SampleRequest&)>& change) {
          const std::string name =
              std::string("sample/") + what + "/sigma" + std::to_string(static_cast<int>(spread)) + "/b" + std::to_string(batch);
          if (!wanted(name)) return;
          std::vector<SampleRequest> requests(batch);
          std::vector<SampleResult> results(batch);
          for (std::size_t i = 0; i < batch; ++i) {
            requests[i].logits = &logits[i * kWidth];
            requests[i].width = kWidth;
            requests[i].uniform = random_.uniform();
            change(requests[i]);
          }
          const double s = median_seconds([&] { backend_->sample(requests, results); });
          std::printf("%-44s %9.1f us  %6.1f us a request\n", name.c_str(), s * 1e6, s * 1e6 / static_cast<double>(batch));
        };
        report("greedy", [](SampleRequest&) {});
        report("plain", [](SampleRequest& r) { r.temperature = 1.0F; });
        report("top_p", [](SampleRequest& r) { r.temperature = 0.7F, r.top_p = 0.95F; });
        report("top_k", [](SampleRequest& r) { r.temperature = 0.7F, r.top_k = 40; });
        report("top_kp", [](SampleRequest& r) { r.temperature = 0.7F, r.top_k = 40, r.top_p = 0.95F; });
        report("min_p", [](SampleRequest& r) { r.temperature = 1.0F, r.min_p = 0.05F; });
        report("logprob", [](SampleRequest& r) { r.want_logprob = true, r.top_logprobs = 5; });
      }
  }

  const std::string filter_;
  const std::size_t threads_;
  std::unique_ptr<Backend> backend_;
  std::vector<std::uint32_t> table_;
  Random random_{1};
};

}  // namespace

int main(int argc, char** argv) {
  const std::size_t threads = argc > 2 ? static_cast<std::size_t>(std::max(1, std::atoi(argv[2]))) : 1;
  Bench(argc > 1 ? argv[1] : "", threads).run();
}
