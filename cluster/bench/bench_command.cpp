// See bench_command.h.
#include "cluster/bench/bench_command.h"

#include "cluster/bench/bench_options.h"
#include "cluster/bench/cache_suite.h"
#include "cluster/bench/engine_runs.h"
#include "cluster/bench/machine.h"
#include "cluster/printable.h"
#include "cluster/bench/roof_suite.h"
#include "cluster/bench/speed_suites.h"
#include "cluster/bench/step_suite.h"
#include "cluster/bench/tp_suite.h"
#include "cluster/bench/turns.h"
#include "cluster/embedded_node.h"
#include "cluster/node_options.h"
#include "cluster/option_table.h"
#include "messages/error_reasons.h"
#include "runtime/base/log.h"
#include "runtime/base/version.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>

namespace troupe::cluster {
namespace {

using namespace bench;

std::atomic<bool> interrupted{false};  // by SIGINT

void catch_interrupts() {
  static_assert(std::atomic<bool>::is_always_lock_free);
  struct sigaction action {};
  action.sa_handler = [](int) { interrupted.store(true); };
  action.sa_flags = static_cast<int>(SA_RESETHAND);  // a second one ends the process
  sigaction(SIGINT, &action, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

/// On a full disk what was printed may be lost in the stream's buffer.
Status flush_output() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return ok_status();
  return make_error(ErrorClass::kStorageFailed, ErrorReason::kBadConfig, "cannot write the figures to standard output");
}

/// The figures come after minutes of work: find out before whether they can be written.
Status check_output(const std::string& path) {
  if (path.empty() || path == "-") return ok_status();
  if (std::ofstream(path, std::ios::app)) return ok_status();
  return make_error(ErrorClass::kInvalidRequest, ErrorReason::kBadConfig, "cannot write " + path);
}

Status write_output(const std::string& path, const std::string& text) {
  if (path.empty()) return ok_status();
  if (path == "-") {
    std::fwrite(text.data(), 1, text.size(), stdout);
    return ok_status();
  }
  std::ofstream file(path, std::ios::trunc);
  file << text;
  file.close();
  if (file) return ok_status();
  return make_error(ErrorClass::kStorageFailed, ErrorReason::kBadConfig, "cannot write " + path);
}

/// Options that shape the figures and were not left at their defaults, and those that always matter.
std::vector<std::pair<std::string, std::string>> shaping_options(const Options& options) {
  std::vector<std::pair<std::string, std::string>> out;
  const Options defaults;
  for (const OptionRow& row : option_table()) {
    if ((row.commands & kBench) == 0 || row.hidden || row.unit == "path" || row.unit == "file" || row.name == "api-key") continue;
    const std::string value = option_text(options, row);
    if (value != option_text(defaults, row) || row.name == "repetitions" || row.name == "decode-steps") out.emplace_back(row.name, value);
  }
  return out;
}

/// " as int8-channel" where the file's weights are not used as they are.
std::string requantized(const Options& options) {
  const OptionRow* row = find_option("weights");
  if (row == nullptr || option_text(options, *row) == option_text(Options{}, *row)) return {};
  return " as " + option_text(options, *row);
}

/// "cpu avx512_vnni, 2 threads" -> "avx512_vnni".
std::string isa_of(const std::string& description) {
  const auto begin = description.find(' '), end = description.find(',');
  return begin < end && end != std::string::npos ? description.substr(begin + 1, end - begin - 1) : description;
}

class Bench {
 public:
  explicit Bench(BenchOptions options) : options_(std::move(options)) {
    report_.version = base::version();
    report_.build = this_build();
    report_.date = date_now();
    report_.machine = this_machine();
    report_.options = shaping_options(options_.options);
  }

  Status measure() {
    const Status status = measure_all();
    bar_.clear();
    report_.interrupted = interrupted.load();
    return report_.interrupted ? ok_status() : status;  // what an interrupt broke off is no fault
  }

  const Report& report() const { return report_; }
  bool failed_requests() const {
    return std::any_of(report_.http.begin(), report_.http.end(), [](const HttpFigure& figure) { return figure.errors > 0; }) ||
           std::any_of(report_.cache.begin(), report_.cache.end(), [](const CacheFigure& figure) { return figure.load.errors > 0; });
  }

 private:
  Status measure_all() {
    const bool foreign = !options_.options.url.empty();
    if (!foreign)
      if (auto status = load(); !status) return status;
    if (interrupted.load()) return ok_status();
    report_.setting.url = options_.options.url;
    if (options_.http || options_.step || (options_.cache && foreign))  // which tells the model's name, too
      if (auto status = start_http(); !status) return status;
    if (!foreign)
      if (auto status = measure_engine(); !status) return status;
    if (options_.http && !interrupted.load()) measure_http();
    if (options_.cache && !interrupted.load()) return measure_cache();
    return ok_status();
  }

  Status load() {
    const Options& options = options_.options;
    if (auto status = check_isa(options.isa); !status) return status;
    exec::ShardSpec spec = shard_spec(options);
    spec.cache_in_background = false;  // a writer beside it would be measured, too
    auto engine = MeasuredEngine::load(spec, [this](std::size_t done, std::size_t total) {
      bar_.show(total == 0 ? 0 : static_cast<double>(done) / static_cast<double>(total), "loading");
    });
    if (!engine) return engine.error();
    engine_ = std::move(*engine);
    runs_.emplace(*engine_, interrupted);
    Setting& setting = report_.setting;
    setting.model = std::filesystem::path(options.model).filename().string();
    setting.weights = weight_formats(options.model) + requantized(options);
    setting.activations = options.activations;
    setting.kv = options.kv_format;
    setting.isa = isa_of(engine_->backend().description());
    setting.threads = engine_->backend().threads();
    report_.shard = engine_->facts().description;
    return ok_status();
  }

  Status start_http() {
    std::string url = options_.options.url;
    if (url.empty()) {
      // The server's steps must be those of the turns: it runs on the same packed model.
      auto node = EmbeddedNode::start(options_.options, [this] { return engine_->borrow(); });
      if (!node) return node.error();
      node_ = std::move(*node);
      url = node_->url();
    }
    auto server = parse_url(url);
    if (!server) return server.error();
    ChatSettings settings;
    settings.api_key = options_.options.api_key;
    settings.ignore_eos = options_.options.ignore_eos;
    http_.emplace(*server, settings, options_.sizes, options_.seed, interrupted);
    if (auto status = http_->prepare(); !status) return status;
    if (report_.setting.model.empty()) report_.setting.model = http_->model();
    return ok_status();
  }

  Status measure_engine() {
    std::optional<PrefillSuite> prefill;
    std::optional<DecodeSuite> decode;
    std::optional<StepSuite> step;
    std::optional<RoofSuite> roof;
    std::vector<Measurement> all;
    std::string misfit;
    const auto take = [&](auto& suite) {
      if constexpr (requires { suite->misfit(); })
        if (misfit.empty()) misfit = suite->misfit();
      for (Measurement& measurement : suite->measurements()) all.push_back(std::move(measurement));
    };
    const std::uint32_t few = std::min(options_.repetitions, kFewRepetitions);
    if (options_.prefill) {
      prefill.emplace(*runs_, options_.prefill_tokens, options_.repetitions);
      take(prefill);
    }
    if (options_.decode) {
      decode.emplace(*runs_, options_.batches, options_.context_tokens, options_.decode_steps, options_.repetitions);
      take(decode);
    }
    if (options_.step) {
      std::vector<std::uint32_t> ends{options_.batches.front()};
      if (options_.batches.size() > 1) ends.push_back(options_.batches.back());
      step.emplace(*runs_, http_ ? &*http_ : nullptr, ThreadTimes(), ends, options_.context_tokens.front(), options_.decode_steps, few);
      take(step);
    }
    if (options_.roof) {
      roof.emplace(*runs_, products_of(options_.options.model, engine_->config()), options_.product_rows, options_.options.activations,
                   report_.setting.isa, few);
      take(roof);
    }
    if (!misfit.empty()) return make_error(ErrorClass::kInvalidRequest, ErrorReason::kBadConfig, misfit);
    // Turns with the server take its engine from under it (MeasuredEngine::borrow): nothing to warn about.
    if (step && options_.options.log_level == Options{}.log_level) base::set_log_level("error");
    run_in_turns(all, bar_, interrupted);
    if (prefill) prefill->report(report_);
    if (decode) decode->report(report_);
    if (step) step->report(report_);
    if (roof) roof->report(report_);
    return ok_status();
  }

  void measure_http() {
    struct Load {
      std::string scenario;
      std::uint32_t clients;
    };
    std::vector<Load> loads;
    for (const std::string& scenario : options_.scenarios) {
      if (!scenario_takes_clients(scenario)) loads.push_back({scenario, 1});
      for (const std::uint32_t clients : options_.clients)
        if (scenario_takes_clients(scenario)) loads.push_back({scenario, clients});
    }
    http_->wake();
    base::set_log_level(options_.options.log_level);
    for (std::size_t i = 0; i < loads.size(); ++i) {
      bar_.show(static_cast<double>(i) / static_cast<double>(loads.size()),
                "http: " + loads[i].scenario + ", " + std::to_string(loads[i].clients) + " clients");
      HttpFigure figure = http_->run(loads[i].scenario, loads[i].clients);
      if (interrupted.load()) return;  // this scenario was cut short and says nothing
      report_.http.push_back(std::move(figure));
    }
  }

  Status measure_cache() {
    const double position_bytes = engine_ ? kv_bytes_of_position(*engine_) : 0;
    const auto context = engine_ ? static_cast<std::uint32_t>(engine_->config().context) : 0;
    http_.reset();
    node_.reset();
    runs_.reset();
    engine_.reset();  // the suite's servers load the model themselves: their K and V survive restarts
    return CacheSuite(options_, position_bytes, context, bar_, interrupted, report_).measure();
  }

  /// Of what varies little or takes long.
  static constexpr std::uint32_t kFewRepetitions = 3;

  BenchOptions options_;
  Report report_;
  ProgressBar bar_;
  std::unique_ptr<MeasuredEngine> engine_;
  std::optional<EngineRuns> runs_;
  std::unique_ptr<EmbeddedNode> node_;  // borrows the engine
  std::optional<HttpScenarios> http_;
};

int fail(const Error& error) {
  std::fprintf(stderr, "troupe bench: %s\n", printable(error.client_text).c_str());  // it may quote a server
  return 1;
}

int run_tp(const Options& options) {
  ProgressBar bar;
  TpSuite suite(options, bar, interrupted);
  const Status status = suite.measure();
  bar.clear();
  if (interrupted.load()) return 130;
  if (!status) return fail(status.error());
  if (options.json_file != "-") std::fputs(tp_table(suite.figures()).c_str(), stdout);
  if (auto written = write_output(options.json_file, tp_json(suite.figures())); !written) return fail(written.error());
  if (auto written = flush_output(); !written) return fail(written.error());
  return 0;
}

}  // namespace

int run_bench(const Options& options) {
  auto checked = bench_options(options);
  if (!checked) return fail(checked.error());
  for (const std::string& path : {options.json_file, options.html_file, options.picture, options.step_trace})
    if (auto status = check_output(path); !status) return fail(status.error());
  catch_interrupts();
  if (checked->tp) return run_tp(checked->options);
  Bench bench(std::move(*checked));
  if (auto status = bench.measure(); !status) return fail(status.error());
  if (options.json_file != "-") std::fputs(report_table(bench.report()).c_str(), stdout);
  if (auto status = write_output(options.json_file, report_json(bench.report())); !status) return fail(status.error());
  if (auto status = flush_output(); !status) return fail(status.error());
  if (auto status = write_output(options.html_file, report_html(bench.report())); !status) return fail(status.error());
  if (bench.report().interrupted) return 130;
  return bench.failed_requests() ? 1 : 0;
}

}  // namespace troupe::cluster
