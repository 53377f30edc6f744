// Statistics, turns, prompts, options of `troupe bench`, and the backend that times another one.
#include "cluster/bench/bench_options.h"
#include "cluster/bench/prompt_maker.h"
#include "cluster/bench/statistics.h"
#include "cluster/bench/timed_backend.h"
#include "cluster/bench/turns.h"
#include "cluster/option_sources.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <unistd.h>

using namespace troupe;
using namespace troupe::cluster;
using namespace troupe::cluster::bench;

namespace {

Result<ParsedOptions> parse(const std::vector<std::string>& arguments) {
  return parse_options(kBench, arguments, [](const std::string&) -> const char* { return nullptr; });
}

BenchOptions asked(const std::vector<std::string>& arguments) {
  auto parsed = parse(arguments);
  REQUIRE(parsed.ok());
  auto options = bench_options(parsed->options);
  REQUIRE(options.ok());
  return *options;
}

std::string fault(const std::vector<std::string>& arguments) {
  auto parsed = parse(arguments);
  if (!parsed) return parsed.error().client_text;
  auto options = bench_options(parsed->options);
  REQUIRE_FALSE(options.ok());
  return options.error().client_text;
}

}  // namespace

TEST_CASE("bench: medians and percentiles") {
  CHECK(median({}) == 0);
  CHECK(median({3}) == 3);
  CHECK(median({9, 1, 5}) == 5);
  CHECK(median({4, 1, 2, 3}) == 2.5);
  CHECK(percentile({10, 20, 30, 40, 50}, 0) == 10);
  CHECK(percentile({50, 40, 30, 20, 10}, 90) == Approx(46));
  CHECK(percentile({10, 20}, 100) == 20);

  const Rates rates = rates_of(100, {2, 1, 4});
  CHECK(rates.median == 50);
  CHECK(rates.best == 100);
  CHECK(rates.worst == 25);
  CHECK(rates.count == 3);
  CHECK(rates.spread_percent() == Approx(150));
  CHECK(rates_of(1, {}).count == 0);
  CHECK(rates_of(1, {0}).count == 0);  // a clock that did not move says nothing

  const Latency latency = latency_of({0.004, 0.002, 0.001, 0.003});
  CHECK(latency.p50 == Approx(2.5));
  CHECK(latency.max == Approx(4));
  CHECK(latency.mean == Approx(2.5));
  CHECK(latency.count == 4);
  CHECK(latency_of({}).count == 0);
}

TEST_CASE("bench: measurements take turns and stop when told") {
  std::string order;
  std::atomic<bool> stop{false};
  ProgressBar bar(false);
  const auto add = [&](char name, std::uint32_t laps) {
    return Measurement{std::string(1, name), laps, [&order, name] { return order += name, true; }, [&order] { order += '-'; }};
  };
  CHECK(run_in_turns({add('a', 3), add('b', 1), add('c', 2)}, bar, stop));
  CHECK(order == "---abcaca");

  order.clear();
  const Measurement stopper{"stopper", 5, [&] { return order += 'x', stop = order.size() > 4, true; }};
  CHECK_FALSE(run_in_turns({add('a', 5), stopper}, bar, stop));
  CHECK(order == "-axax");
  stop = false;
  order.clear();
  const Measurement broken{"broken", 5, [&] { return order += 'x', false; }};
  CHECK_FALSE(run_in_turns({broken, add('a', 5)}, bar, stop));
  CHECK(order == "-x");
}

TEST_CASE("bench: prompts are repeatable and as long as wanted") {
  const auto count = [](const std::string& text) {
    std::istringstream words(text);
    std::string word;
    std::uint32_t n = 0;
    while (words >> word) ++n;
    return n;
  };
  PromptMaker a(7), b(7), c(8);
  CHECK(a.words(20) == b.words(20));
  CHECK(a.words(20) != c.words(20));
  CHECK(count(a.words(31)) == 31);
  a.calibrate(40, 40 * 1.25 + 10, 240, 240 * 1.25 + 10);  // 1.25 tokens a word and 10 of the template
  CHECK(a.tokens_per_word() == Approx(1.25));
  CHECK(count(a.text(510)) == 400);
  CHECK(count(a.text(1)) == 1);
}

TEST_CASE("bench: suites and lists") {
  const BenchOptions all = asked({"m.gguf"});
  CHECK((all.prefill && all.decode && all.step && all.roof && !all.http));
  CHECK(all.batches == std::vector<std::uint32_t>{1, 4, 16, 32});
  CHECK(all.seed != 0);

  const BenchOptions some = asked({"m.gguf", "roof", "http", "--batch", "16,1", "--batch", "2", "--prefill-tokens=128,512,2048", "--seed",
                                   "9", "--scenario", "ttft,newcomer", "--clients", "8"});
  CHECK((some.roof && some.http && !some.prefill && !some.decode && !some.step));
  CHECK(some.batches == std::vector<std::uint32_t>{1, 2, 16});
  CHECK(some.prefill_tokens == std::vector<std::uint32_t>{128, 512, 2048});
  CHECK(some.scenarios == std::vector<std::string>{"ttft", "newcomer"});
  CHECK(some.clients == std::vector<std::uint32_t>{8});
  CHECK(some.seed == 9);

  const BenchOptions foreign = asked({"--url", "http://127.0.0.1:1"});
  CHECK((foreign.http && !foreign.prefill && !foreign.step));
  const BenchOptions named = asked({"--url", "http://127.0.0.1:1", "http"});  // not a model
  CHECK((named.http && named.options.model.empty()));
  const BenchOptions cache = asked({"--url", "http://127.0.0.1:1", "cache", "--cache-scenario", "mcts", "--tree-depth", "3"});
  CHECK(
      (cache.cache && !cache.http && cache.cache_sizes.scenarios == std::vector<std::string>{"mcts"} && cache.cache_sizes.tree.depth == 3));
}

TEST_CASE("bench: a trace is read run by run, and what is none is told with its line") {
  const std::string path = (std::filesystem::temp_directory_path() / ("troupe-trace-" + std::to_string(getpid()))).string();
  const auto write = [&](const std::string& text) { std::ofstream(path) << text; };
  const auto read = [&](std::size_t requests) { return read_block_trace(path, requests); };
  write("0+3 9\n0 7+2\r\n5\n");
  REQUIRE(read(9).ok());
  CHECK(*read(9) == std::vector<TraceRequest>{{0, 1, 2, 9}, {0, 7, 8}, {5}});
  CHECK(read(2)->size() == 2);
  for (const char* line : {"", "x", "1+", "1+0", "1-2", "-1", "1+2+3", "4294967296", "4294967295+2", "0+65537", "0+65536 1", "1\t2"}) {
    write(std::string("1\n") + line + "\n");
    INFO(line);
    const auto trace = read(9);
    REQUIRE_FALSE(trace.ok());
    CHECK(trace.error().client_text.find("--trace: line 2 of ") == 0);
    CHECK(read(1).ok());  // only what is wanted is read
  }
  write("");
  CHECK(read(1).error().client_text.find("holds no request") != std::string::npos);
  write("3+2\n1\n");
  const BenchOptions options = asked({"m.gguf", "cache", "--trace", path, "--requests", "1"});
  CHECK(options.cache_sizes.trace == std::vector<TraceRequest>{{3, 4}});
  CHECK(options.cache_sizes.scenarios.back() == "trace");  // named by its file
  CHECK(asked({"m.gguf", "cache", "--trace", path, "--cache-scenario", "trace"}).cache_sizes.scenarios.size() == 1);
  std::filesystem::remove(path);
  CHECK(fault({"m.gguf", "cache", "--trace", path}).find("cannot read") != std::string::npos);
  CHECK(fault({"m.gguf", "cache", "--cache-scenario", "trace"}).find("--trace FILE") != std::string::npos);

  const auto prompt = trace_prompt({4, 5, 4}, 1, 1000);
  CHECK(prompt.size() == 96);
  CHECK(std::equal(prompt.begin(), prompt.begin() + 32, prompt.begin() + 64));  // equal ids, equal tokens
  CHECK(trace_prompt({4}, 2, 1000) != trace_prompt({4}, 1, 1000));
  CHECK(trace_prompt({4, 5}, 1, 63).size() == 32);
  CHECK(trace_prompt({4, 5}, 1, 1).size() == 32);
}

TEST_CASE("bench: JSON goes to standard output when no file is named") {
  CHECK(asked({"m.gguf"}).options.json_file.empty());
  CHECK(asked({"m.gguf", "--json"}).options.json_file == "-");
  CHECK(asked({"m.gguf", "--json", "--repetitions", "1"}).options.json_file == "-");
  CHECK(asked({"m.gguf", "--json", "-"}).options.json_file == "-");
  CHECK(asked({"m.gguf", "--json", "out.json"}).options.json_file == "out.json");
  CHECK(asked({"m.gguf", "--json=out.json"}).options.json_file == "out.json");
}

TEST_CASE("bench: bad options name themselves and their limit") {
  CHECK(fault({}).find("GGUF") != std::string::npos);
  CHECK(fault({"m.gguf", "decoding"}).find("SUITE: 'decoding'") == 0);
  CHECK(fault({"m.gguf", "decoding"}).find("prefill, decode, step, roof, http") != std::string::npos);
  CHECK(fault({"m.gguf", "--batch", "0"}).find("--batch: '0'") == 0);
  CHECK(fault({"m.gguf", "--batch", "1,,4"}).find("--batch: ''") == 0);
  CHECK(fault({"m.gguf", "--batch", "1,5000"}).find("1 to 4096") != std::string::npos);
  CHECK(fault({"m.gguf", "--clients", "eight"}).find("--clients: 'eight'") == 0);
  CHECK(fault({"m.gguf", "--repetitions", "0"}).find("1 to 1000") != std::string::npos);
  CHECK(fault({"m.gguf", "--scenario", "ttft,storm"}).find("--scenario: 'storm'") == 0);
  CHECK(fault({"m.gguf", "--answer-tokens", "1"}).find("2 to 65536") != std::string::npos);
  CHECK(fault({"m.gguf", "--url", "http://x"}).find("not both") != std::string::npos);
  CHECK(fault({"decode", "--url", "http://x"}).find("with --url there are only http and cache") != std::string::npos);
  CHECK(fault({"--url", "http://x", "--html"}).find("--html") != std::string::npos);
}

TEST_CASE("bench: a timed backend gives the bits of its inner one and tells the ops apart") {
  constexpr std::size_t kHidden = 64, kFfn = 96, kVocabulary = 160, kRows = 3;
  model::ModelConfig config;
  config.hidden = kHidden;
  config.ffn = kFfn;
  config.vocabulary = kVocabulary;
  config.q_heads = 2;
  config.kv_heads = 1;
  config.head_dim = 32;
  const kernels::CpuOptions options{.threads = 1, .pin = false, .spin_us = 0, .isa = "ref"};
  auto plain = kernels::make_cpu_backend(options);
  TimedBackend timed(kernels::make_cpu_backend(options), config);
  CHECK(timed.description() == plain->description());

  std::vector<float> values(2 * kFfn * kHidden), x(kRows * 2 * kFfn), norm(kHidden, 1.0F);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 17) - 8.0F;
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 13) * 0.25F - 1.0F;
  const auto source = [&](std::size_t rows, std::size_t cols) {
    return kernels::MatrixSource{kernels::StorageType::kF32, reinterpret_cast<const std::byte*>(values.data()), rows, cols};
  };
  const auto product = [&](std::size_t outputs, std::size_t inputs, auto call) {
    const kernels::MatrixSource from = source(outputs, inputs);
    const auto mine = plain->pack(std::span(&from, 1)), theirs = timed.pack(std::span(&from, 1));
    std::vector<float> a(kRows * outputs), b(kRows * outputs);
    call(static_cast<kernels::Backend&>(*plain), *mine, kernels::Rows{a.data(), kRows, outputs, outputs});
    call(static_cast<kernels::Backend&>(timed), *theirs, kernels::Rows{b.data(), kRows, outputs, outputs});
    CHECK(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
  };
  const kernels::Rows rows{x.data(), kRows, kHidden, kHidden}, wide{x.data(), kRows, 2 * kFfn, 2 * kFfn};
  const auto all = [&] {
    product(128, kHidden, [&](auto& to, auto& w, auto y) { to.norm_linear_two_terms(rows, norm.data(), 1e-5F, w, y); });
    product(kHidden, kHidden, [&](auto& to, auto& w, auto y) { to.linear(w, rows, y); });
    product(2 * kFfn, kHidden, [&](auto& to, auto& w, auto y) { to.norm_linear(rows, norm.data(), 1e-5F, w, y); });
    product(kHidden, kFfn, [&](auto& to, auto& w, auto y) { to.swiglu_linear(wide, w, y); });
    product(kVocabulary, kHidden, [&](auto& to, auto& w, auto y) { to.norm_linear(rows, norm.data(), 1e-5F, w, y); });
  };
  TimedBackend::Clock::time_point first, last;
  all();
  CHECK(timed.take_totals(first, last)[static_cast<std::size_t>(Op::kHead)].seconds == 0);  // not recording
  timed.record(true);
  all();
  const OpTotals totals = timed.take_totals(first, last);
  CHECK(first < last);
  for (const auto& [op, outputs, inputs] :
       {std::tuple{Op::kQkv, std::size_t{128}, kHidden}, std::tuple{Op::kOutput, kHidden, kHidden},
        std::tuple{Op::kGateUp, 2 * kFfn, kHidden}, std::tuple{Op::kDown, kHidden, kFfn}, std::tuple{Op::kHead, kVocabulary, kHidden}}) {
    INFO(op_name(op));
    const OpTotal& total = totals[static_cast<std::size_t>(op)];
    CHECK(total.seconds > 0);
    CHECK(total.operations == 2.0 * kRows * static_cast<double>(outputs * inputs));
    CHECK(total.bytes > 0);
  }
  CHECK(timed.take_totals(first, last)[static_cast<std::size_t>(Op::kHead)].seconds == 0);  // taken
}
