// What `troupe bench` is asked to do, checked: a small struct out of Options. Pure; any thread.
#pragma once
#include "cluster/bench/cache_loads.h"
#include "cluster/bench/http_scenarios.h"
#include "cluster/options.h"
#include "messages/error.h"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::cluster::bench {

struct CacheSizes {
  std::vector<std::string> scenarios;
  std::uint32_t chat_tokens = 2000, tree_root_tokens = 1000, trace_tokens = 4096;
  TreeShape tree;
  std::vector<TraceRequest> trace;  // of the scenario trace
};

struct BenchOptions {
  Options options;  // as given: the model, its formats, the scheduler of the served parts
  bool prefill = false, decode = false, step = false, roof = false, http = false, cache = false, tp = false;
  std::vector<std::uint32_t> prefill_tokens, batches, context_tokens, product_rows, clients;
  std::uint32_t decode_steps = 64, repetitions = 5;
  std::vector<std::string> scenarios;
  HttpSizes sizes;
  CacheSizes cache_sizes;
  std::uint64_t seed = 0;  // of the prompts; never 0
};

/// Errors name the option and its limit: an unknown suite, no model, suites that need one with --url, a trace that cannot be read.
Result<BenchOptions> bench_options(const Options& options);

}  // namespace troupe::cluster::bench
