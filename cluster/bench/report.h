// Report: everything one run of `troupe bench` has measured, as plain data; the writers turn it into a table, JSON or a page.
// Filled by the suites on the main thread, read by the writers when they are through (or were interrupted).
// Invariant: an empty list means that the suite did not run; a figure is there only if it was measured.
#pragma once
#include "cluster/bench/statistics.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace troupe::cluster::bench {

struct Machine {
  std::string cpu;                                          // model name as the system says it
  unsigned cores = 0;                                       // that this process may use
  std::uint64_t l1d_bytes = 0, l2_bytes = 0, l3_bytes = 0;  // of core 0; 0: unknown
  std::uint64_t memory_bytes = 0;
  std::string system;  // kernel
  double load = 0;     // load average of the last minute, before the first measurement
};

/// What every figure names: numbers of different formats must not be compared by accident.
struct Setting {
  std::string model;        // name of the file
  std::string weights;      // storage of most of the matrices' bytes: "Q4_1", "Q4_0 + Q8_0"
  std::string activations;  // as the option
  std::string kv;
  std::string isa;
  std::size_t threads = 0;
  std::string url;  // of a foreign server; then the rest but the model is unknown
  /// "Q4_1 weights, int8 activations, int8 KV, avx512_vnni, 2 threads"; the address of a foreign server.
  std::string text() const;
};

struct PrefillFigure {
  std::uint32_t tokens = 0;  // of one prompt, in one step
  Rates tokens_per_second;
  double gflops = 0;  // products and attention, at the median
};

struct DecodeFigure {
  std::uint32_t batch = 1;          // sequences
  std::uint32_t context = 0;        // tokens that each holds when timing starts
  Rates tokens_per_second;          // of all sequences together
  double step_ms = 0;               // median
  double gigabytes_per_second = 0;  // weights once a step, and K and V of every sequence
};

/// A share of one step.
struct StepPart {
  enum class Kind : std::uint8_t { kProduct, kOtherKernel, kExecutor, kScheduler, kWaiting };
  std::string name;
  Kind kind = Kind::kProduct;
  double us = 0;
  double gops = 0, gigabytes_per_second = 0;  // of products; 0: not given
};
/// Processor time of a group of threads.
struct ThreadShare {
  std::string name;
  double us = 0;  // a step
};
struct StepFigure {
  std::string path;  // "scheduled": scheduler and shard on one thread; "served": through actors, gateway and a local HTTP client
  std::uint32_t batch = 1;
  std::uint32_t context = 0;
  double step_us = 0;       // from step to step, mean
  double bare_step_us = 0;  // of the shard alone with ready-made plans, in the same run; 0: not measured
  std::vector<StepPart> parts;
  std::vector<ThreadShare> threads;  // of the served path
  double kernel_us() const;
  double outside_percent() const { return step_us > 0 ? 100 * (1 - kernel_us() / step_us) : 0; }
  /// How much slower than the bare step, in percent of the bare throughput.
  double loss_percent() const { return bare_step_us > 0 && step_us > 0 ? 100 * (1 - bare_step_us / step_us) : 0; }
};

/// A limit of the machine.
struct PeakFigure {
  std::string what;  // "int8 products", "DRAM read" ...
  std::string isa;
  std::size_t threads = 1;
  double value = 0;
  std::string unit;  // "GOPS", "GFLOPS", "GB/s"
};
/// How near a product comes to it.
struct ProductFigure {
  std::string name;  // "gate, up"
  std::string format;
  std::uint32_t outputs = 0, inputs = 0, rows = 0;
  std::string isa;
  std::size_t threads = 1;
  double gops = 0, peak_gops = 0;
  double gigabytes_per_second = 0, peak_gigabytes_per_second = 0;  // of weights
  double share_percent() const { return peak_gops > 0 ? 100 * gops / peak_gops : 0; }
  double bandwidth_percent() const { return peak_gigabytes_per_second > 0 ? 100 * gigabytes_per_second / peak_gigabytes_per_second : 0; }
};

/// Prompt tokens whose K and V came from a tier of the cache; zeros where the server does not tell, only how many in all.
struct TierTokens {
  double device = 0, host = 0, disk = 0;
};

struct HttpFigure {
  std::string scenario;
  std::uint32_t clients = 1;
  std::uint32_t requests = 0, errors = 0;
  std::string first_error;
  double wall_seconds = 0;
  double output_tokens_per_second = 0, prompt_tokens_per_second = 0;
  double prompt_tokens = 0, cached_tokens = 0, output_tokens = 0;  // mean of a request, as `usage` says
  TierTokens tiers;                                                // the same of the cached ones
  Latency first_token, between_tokens, per_token, whole;           // ms; per_token: one mean a request
  std::vector<double> first_token_by_turn;                         // ms, median
  // Of the scenario newcomer: the streams' gaps before, while and after its prompt is read.
  double newcomer_first_token_ms = 0;
  std::uint32_t newcomer_prompt_tokens = 0;
  Latency before, during, after;
};

/// Of the suite cache.
struct CacheFigure {
  std::string where;  // turn: where the first turn lay; none: which tiers there are; else how many clients
  HttpFigure load;
  std::string against;  // where of the figure of this scenario that the ratio is to
  double ratio = 0;     // turn: its median TTFT over that one's; none: its tok/s over that one's; 0: no such comparison
  double cached_percent() const { return load.prompt_tokens > 0 ? 100 * load.cached_tokens / load.prompt_tokens : 0; }
};

struct Report {
  std::string version, build, date;  // of the program; ISO 8601, UTC
  Machine machine;
  Setting setting;
  std::string shard;                                         // the engine's own line
  std::vector<std::pair<std::string, std::string>> options;  // name and value of what shapes the figures
  std::vector<PrefillFigure> prefill;
  std::vector<DecodeFigure> decode;
  std::vector<StepFigure> steps;
  std::vector<PeakFigure> peaks;
  std::vector<ProductFigure> products;
  std::vector<HttpFigure> http;
  std::vector<CacheFigure> cache;
  bool interrupted = false;
  std::vector<std::string> notes;  // what a reader must know: a part that was left out, and why
};

/// Time of four rows over that of one, from the decode figures of that context; 0: not measured.
double four_rows_cost(const Report& report, std::uint32_t context);

std::string report_table(const Report& report);
/// `runs` (prefill and decode), `steps`, `peaks`, `products`, `http`, `cache`, with what they were measured on.
std::string report_json(const Report& report);
/// One page that needs nothing else: plots as inline SVG, light and dark.
std::string report_html(const Report& report);

}  // namespace troupe::cluster::bench
