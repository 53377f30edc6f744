// See bench_options.h.
#include "cluster/bench/bench_options.h"
#include "cluster/option_table.h"
#include "messages/error_reasons.h"

#include <algorithm>
#include <chrono>
#include <set>

namespace troupe::cluster::bench {
namespace {

/// Numbers of a list whose range the option table has checked; ascending, each once.
std::vector<std::uint32_t> numbers(const std::vector<std::string>& texts) {
  std::set<std::uint32_t> out;
  for (const std::string& text : texts) out.insert(static_cast<std::uint32_t>(std::stoul(text)));
  return {out.begin(), out.end()};
}

std::uint32_t small(std::uint64_t number) { return static_cast<std::uint32_t>(number); }

Error bad(const std::string& option, std::string text) {
  return make_error(ErrorClass::kInvalidRequest, ErrorReason::kBadConfig, std::move(text), option);
}

Result<CacheSizes> cache_sizes(const Options& options) {
  CacheSizes out;
  out.scenarios = options.cache_scenarios;
  out.chat_tokens = small(options.chat_tokens);
  out.tree_root_tokens = small(options.tree_root_tokens);
  out.tree = {small(options.tree_branches), small(options.tree_depth), small(options.tree_children), small(options.tree_expansions)};
  out.trace_tokens = small(options.trace_tokens);
  const bool named = std::find(out.scenarios.begin(), out.scenarios.end(), "trace") != out.scenarios.end();
  if (named && options.trace.empty()) return bad("trace", "--cache-scenario trace needs a file: --trace FILE");
  if (options.trace.empty()) return out;
  auto trace = read_block_trace(options.trace, options.requests);
  if (!trace) return trace.error();
  out.trace = std::move(*trace);
  if (!named) out.scenarios.push_back("trace");
  return out;
}

}  // namespace

Result<BenchOptions> bench_options(const Options& options) {
  BenchOptions out;
  out.options = options;
  const bool foreign = !options.url.empty();
  std::vector<std::string> suites = options.suites;
  const std::vector<std::string_view>& known = find_option("suite")->choices;
  if (foreign && std::find(known.begin(), known.end(), options.model) != known.end()) {  // the first word is MODEL's place
    suites.push_back(options.model);
    out.options.model.clear();
  }
  if (!foreign && suites.empty() && options.model == "tp") {  // which needs no MODEL
    suites = {"tp"};
    out.options.model.clear();
  }
  if (suites.empty()) suites = foreign ? std::vector<std::string>{"http"} : std::vector<std::string>{"prefill", "decode", "step", "roof"};
  for (const std::string& suite : suites) {
    if (foreign && suite != "http" && suite != "cache")
      return bad("suite", "suite " + suite + " measures MODEL in this process; with --url there are only http and cache");
    out.prefill |= suite == "prefill";
    out.decode |= suite == "decode";
    out.step |= suite == "step";
    out.roof |= suite == "roof";
    out.http |= suite == "http";
    out.cache |= suite == "cache";
    out.tp |= suite == "tp";
  }
  if (out.tp && suites.size() > 1) return bad("suite", "suite tp needs the machine for itself: measure the others in another run");
  if (out.tp && !out.options.model.empty() && options.setting != "B")
    return bad("setting", "suite tp measures MODEL in setting B; the others have shapes of their own");
  if (out.tp) return out;
  if (foreign && !out.options.model.empty()) return bad("url", "give --url or MODEL, not both");
  if (!foreign && options.model.empty()) return bad("model", "give the path of a GGUF file, or --url of a server");

  out.prefill_tokens = numbers(options.prefill_tokens);
  out.batches = numbers(options.batches);
  out.context_tokens = numbers(options.context_tokens);
  out.product_rows = numbers(options.product_rows);
  out.clients = numbers(options.clients);
  out.decode_steps = small(options.decode_steps);
  out.repetitions = small(options.repetitions);
  out.scenarios = options.scenarios;
  out.sizes.requests = small(options.requests);
  out.sizes.prompt_tokens = small(options.prompt_tokens);
  out.sizes.system_tokens = small(options.system_tokens);
  out.sizes.answer_tokens = small(options.answer_tokens);
  out.sizes.turns = small(options.turns);
  out.sizes.streams = small(options.streams);
  out.sizes.stream_tokens = small(options.stream_tokens);
  out.sizes.newcomer_tokens = small(options.newcomer_tokens);
  out.sizes.settle_seconds = options.settle_seconds;
  if (out.cache) {
    auto sizes = cache_sizes(options);
    if (!sizes) return sizes.error();
    out.cache_sizes = std::move(*sizes);
  }
  out.seed = options.seed;
  // A server that has seen a prompt before answers from its prefix cache: a new seed each time, unless one is given.
  if (out.seed == 0) out.seed = static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch().count()) | 1;
  return out;
}

}  // namespace troupe::cluster::bench
