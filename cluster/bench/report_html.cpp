// The report as one page: tiles with the figures people ask for, plots, and all figures as tables below each. Well-formed XML, nothing
// from outside. See report.h.
#include "cluster/bench/charts.h"
#include "cluster/bench/print.h"
#include "cluster/bench/report.h"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <set>

namespace troupe::cluster::bench {
namespace {

constexpr const char* kStyle = R"css(
:root { color-scheme: light dark; --page: #f7f7f5; --card: #ffffff; --ink: #1d1d1b; --muted: #66655f; --rule: #e2e1dc; --track: #ecebe6;
  --c1: #2a6fc9; --c2: #12936a; --c3: #d98a00; --c4: #7a52c7; --c5: #c4483d; --c6: #85847e; --inside: #ffffff; }
@media (prefers-color-scheme: dark) { :root { --page: #161615; --card: #20201e; --ink: #ecebe6; --muted: #a3a29b; --rule: #35342f;
  --track: #2e2d29; --c1: #4a8fe7; --c2: #27b083; --c3: #dd9a1f; --c4: #a283ea; --c5: #e2695d; --c6: #8d8c85; --inside: #10100f; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, "Segoe UI", Roboto, "Liberation Sans", sans-serif; }
main { max-width: 1000px; margin: 0 auto; padding: 32px 20px 64px; }
h1 { font-size: 26px; margin: 0; letter-spacing: -0.01em; }
h2 { font-size: 19px; margin: 0 0 2px; }
h3 { font-size: 14px; margin: 20px 0 4px; }
p { margin: 4px 0 12px; }
.muted { color: var(--muted); }
.note { border-left: 3px solid var(--c3); padding: 2px 12px; }
section { background: var(--card); border: 1px solid var(--rule); border-radius: 10px; padding: 20px 22px; margin-top: 20px; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(170px, 1fr)); gap: 12px; margin-top: 20px; }
.tile { background: var(--card); border: 1px solid var(--rule); border-radius: 10px; padding: 14px 16px; }
.tile b { display: block; font-size: 24px; font-weight: 600; font-variant-numeric: tabular-nums; }
.tile span { color: var(--muted); font-size: 13px; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 13px; width: 100%; }
th { text-align: right; color: var(--muted); font-weight: 500; padding: 4px 10px; border-bottom: 1px solid var(--rule); }
td { text-align: right; padding: 3px 10px; border-bottom: 1px solid var(--rule); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 2px 18px; margin: 12px 0 0; font-size: 14px; }
dt { color: var(--muted); } dd { margin: 0; }
details { margin-top: 10px; } summary { cursor: pointer; color: var(--muted); font-size: 13px; }
svg { display: block; width: 100%; height: auto; margin: 6px 0; }
svg text { font-size: 12px; fill: var(--ink); } svg .axis { fill: var(--muted); font-size: 11px; }
svg .value { fill: var(--muted); font-size: 11px; } svg .inside { fill: var(--inside); font-size: 11px; pointer-events: none; }
.grid { stroke: var(--rule); } .track { fill: var(--track); } .whisker { stroke: var(--ink); stroke-width: 1.2; opacity: 0.55; }
.c1 { fill: var(--c1); } .c2 { fill: var(--c2); } .c3 { fill: var(--c3); } .c4 { fill: var(--c4); } .c5 { fill: var(--c5); } .c6 { fill: var(--c6); }
.line { fill: none; stroke-width: 2; } .l1 { stroke: var(--c1); } .l2 { stroke: var(--c2); } .l3 { stroke: var(--c3); }
.l4 { stroke: var(--c4); } .l5 { stroke: var(--c5); } .l6 { stroke: var(--c6); }
.legend { font-size: 13px; color: var(--muted); } .key { display: inline-block; width: 11px; height: 11px; border-radius: 3px; margin: 0 6px 0 12px; }
.key:first-child { margin-left: 0; }
.k1 { background: var(--c1); } .k2 { background: var(--c2); } .k3 { background: var(--c3); } .k4 { background: var(--c4); }
.k5 { background: var(--c5); } .k6 { background: var(--c6); }
)css";

using Row = std::vector<std::string>;

std::string table(std::initializer_list<const char*> names, const std::vector<Row>& rows) {
  std::string out = "<div class=\"scroll\"><table><thead><tr>";
  for (const char* name : names) out += "<th>" + escaped(name) + "</th>";
  out += "</tr></thead><tbody>\n";
  for (const Row& row : rows) {
    out += "<tr>";
    for (const std::string& cell : row) out += "<td>" + escaped(cell) + "</td>";
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

std::string details(const std::string& inner) { return "<details><summary>All figures</summary>\n" + inner + "</details>\n"; }

std::string section(const std::string& title, const std::string& text, const std::string& setting, const std::string& inner) {
  return "<section><h2>" + escaped(title) + "</h2>\n<p class=\"muted\">" + escaped(text) + "<br/>" + escaped(setting) + "</p>\n" + inner +
         "</section>\n";
}

std::string tile(const std::string& value, const std::string& what) {
  return "<div class=\"tile\"><b>" + escaped(value) + "</b><span>" + escaped(what) + "</span></div>\n";
}

std::string mebibytes(std::uint64_t bytes) {
  return bytes >= std::uint64_t{1} << 30 ? print("%.0f GiB", static_cast<double>(bytes) / (1 << 30))
         : bytes >= 1 << 20              ? print("%.0f MiB", static_cast<double>(bytes) / (1 << 20))
                                         : print("%.0f KiB", static_cast<double>(bytes) / (1 << 10));
}

std::string head(const Report& report) {
  const Machine& m = report.machine;
  std::string out = "<h1>" + escaped(report.setting.model.empty() ? "troupe bench" : report.setting.model) + "</h1>\n<p class=\"muted\">" +
                    escaped(report.setting.text()) + "</p>\n<dl>\n";
  const auto entry = [&](const std::string& name, const std::string& value) {
    if (!value.empty()) out += "<dt>" + escaped(name) + "</dt><dd>" + escaped(value) + "</dd>\n";
  };
  entry("Machine", m.cpu + print(", %u %s", m.cores, m.cores == 1 ? "core" : "cores") + ", L1 " + mebibytes(m.l1d_bytes) + ", L2 " +
                       mebibytes(m.l2_bytes) + ", L3 " + mebibytes(m.l3_bytes) + ", memory " + mebibytes(m.memory_bytes));
  entry("System", m.system + print(", load average %.2f before the first measurement", m.load));
  entry("Build", "troupe " + report.version + ", " + report.build);
  entry("Engine", report.shard);
  entry("Date", report.date);
  std::string options;
  for (const auto& [name, value] : report.options) options += (options.empty() ? "--" : ", --") + name + " " + value;
  entry("Options", options);
  out += "</dl>\n";
  for (const std::string& note : report.notes) out += "<p class=\"note\">" + escaped(note) + "</p>\n";
  if (report.interrupted) out += "<p class=\"note\">Interrupted: only what was measured until then.</p>\n";
  return out;
}

std::string tiles(const Report& report) {
  std::string out;
  if (!report.prefill.empty()) {
    const PrefillFigure& f = report.prefill.front();
    out += tile(print("%.0f tok/s", f.tokens_per_second.median), print("prefill of %u tokens", f.tokens));
  }
  std::uint32_t context = 0;
  for (const DecodeFigure& f : report.decode) {
    const bool first = context == 0;
    if (first) context = f.context;
    if (f.context == context && (first || &f == &report.decode.back() || f.batch == 16))
      out += tile(print("%.0f tok/s", f.tokens_per_second.median), print("decode of %u at context %u", f.batch, f.context));
  }
  if (const double ratio = four_rows_cost(report, context); ratio > 0)
    out += tile(print("%.2f", ratio), "time of four rows over that of one");
  for (const StepFigure& f : report.steps)
    if (f.path == "served") out += tile(print("%.1f %%", f.loss_percent()), print("served slower than bare, batch %u", f.batch));
  for (const HttpFigure& f : report.http) {
    if (f.scenario == "ttft")
      out += tile(print("%.0f ms", f.first_token.p50), print("first token of %.0f cold ones, over HTTP", f.prompt_tokens));
    if (f.scenario == "newcomer") out += tile(print("%.0f ms", f.during.max), "longest gap while a newcomer is read");
  }
  for (const CacheFigure& f : report.cache)
    if (f.load.scenario == "turn" && f.ratio > 0)
      out += tile(print("%.2f", f.ratio), "first token of a second turn against a cold one: " + f.where);
  return out.empty() ? out : "<div class=\"tiles\">\n" + out + "</div>\n";
}

std::string prefill(const Report& report) {
  if (report.prefill.empty()) return {};
  std::vector<Bar> bars;
  std::vector<Row> rows;
  for (const PrefillFigure& f : report.prefill) {
    const Rates& r = f.tokens_per_second;
    bars.push_back({print("%u tokens", f.tokens), r.median, print("%.0f tok/s", r.median), r.worst, r.best});
    rows.push_back({print("%u", f.tokens), print("%.1f", r.median), print("%.1f", r.best), print("%.1f", r.spread_percent()),
                    print("%.2f", r.median > 0 ? f.tokens * 1e3 / r.median : 0), print("%.1f", f.gflops), print("%zu", r.count)});
  }
  return section("Prefill",
                 "One prompt, read in one step by the shard alone. Bars are medians, whiskers the worst and the best repetition.",
                 report.setting.text(),
                 bar_chart("Prefill, tokens a second", bars) +
                     details(table({"tokens", "median tok/s", "best tok/s", "spread %", "ms", "GFLOPS", "repetitions"}, rows)));
}

std::string decode(const Report& report) {
  if (report.decode.empty()) return {};
  std::set<std::uint32_t> batches, contexts;
  for (const DecodeFigure& f : report.decode) {
    batches.insert(f.batch);
    contexts.insert(f.context);
  }
  std::vector<std::string> x;
  for (const std::uint32_t batch : batches) x.push_back(std::to_string(batch));
  std::vector<Line> all, each;
  int colour = 0;
  for (const std::uint32_t context : contexts) {
    colour = colour % 6 + 1;
    Line total{print("context %u", context), {}, colour}, one = total;
    for (const std::uint32_t batch : batches) {
      double rate = 0;
      for (const DecodeFigure& f : report.decode)
        if (f.batch == batch && f.context == context) rate = f.tokens_per_second.median;
      total.values.push_back(rate);
      one.values.push_back(rate / batch);
    }
    all.push_back(std::move(total));
    each.push_back(std::move(one));
  }
  std::vector<Row> rows;
  for (const DecodeFigure& f : report.decode) {
    const Rates& r = f.tokens_per_second;
    rows.push_back({print("%u", f.context), print("%u", f.batch), print("%.1f", r.median), print("%.1f", r.best),
                    print("%.1f", r.median / f.batch), print("%.1f", r.spread_percent()), print("%.3f", f.step_ms),
                    print("%.1f", f.gigabytes_per_second)});
  }
  std::string inner = "<h3>All sequences together</h3>" +
                      line_chart("Decode, tokens a second of all sequences", x, all, "sequences", "tok/s") + "<h3>Each sequence</h3>" +
                      line_chart("Decode, tokens a second of each sequence", x, each, "sequences", "tok/s");
  for (const std::uint32_t context : contexts)
    if (const double ratio = four_rows_cost(report, context); ratio > 0)
      inner += "<p>" + escaped(print("At context %u a step of four sequences takes %.2f times that of one.", context, ratio)) + "</p>\n";
  inner += details(table({"context", "sequences", "median tok/s", "best tok/s", "tok/s each", "spread %", "step ms", "GB/s"}, rows));
  return section(
      "Decode",
      "Steps of one token a sequence, by the shard alone with plans made beforehand. GB/s: weights once a step, and all keys and values.",
      report.setting.text(), inner);
}

int colour_of(StepPart::Kind kind) { return static_cast<int>(kind) + 1; }

std::string step(const Report& report) {
  if (report.steps.empty()) return {};
  std::vector<StackedBar> bars;
  std::string tables;
  for (const StepFigure& f : report.steps) {
    StackedBar bar{print("%s, batch %u", f.path.c_str(), f.batch), {}, print("%.0f us", f.step_us)};
    std::vector<Row> rows;
    for (const StepPart& part : f.parts) {
      bar.segments.push_back({part.name, part.us, colour_of(part.kind)});
      rows.push_back({part.name, print("%.1f", part.us), print("%.2f", f.step_us > 0 ? 100 * part.us / f.step_us : 0),
                      part.gops > 0 ? print("%.1f", part.gops) : "",
                      part.gigabytes_per_second > 0 ? print("%.1f", part.gigabytes_per_second) : ""});
    }
    bars.push_back(std::move(bar));
    std::string sentence =
        print("%.2f %% of the step is outside kernels; it takes %.1f us, the bare step beside it %.1f us: %.2f %% slower.",
              f.outside_percent(), f.step_us, f.bare_step_us, f.loss_percent());
    for (const ThreadShare& share : f.threads)
      sentence += (&share == f.threads.data() ? " Processor time a step: " : ", ") + share.name + print(" %.1f us", share.us);
    tables += "<h3>" + escaped(print("%s, batch %u, context %u", f.path.c_str(), f.batch, f.context)) + "</h3><p class=\"muted\">" +
              escaped(sentence) + "</p>" + table({"part", "us", "%", "GOPS", "GB/s"}, rows);
  }
  // Steps of one and of many sequences differ tenfold: a plot for each batch.
  std::map<std::string, std::vector<StackedBar>> by_batch;
  for (StackedBar& bar : bars) by_batch[bar.label.substr(bar.label.find("batch"))].push_back(std::move(bar));
  std::string plots;
  for (const auto& [batch, some] : by_batch) plots += stacked_bars("Parts of a step, " + batch, some);
  return section(
      "Where a step's time goes",
      "scheduled: scheduler and shard on one thread. served: actors, gateway and a local HTTP client on the same cores.",
      report.setting.text(),
      legend({{"products", 1}, {"other kernels", 2}, {"executor", 3}, {"scheduler", 4}, {"between steps", 5}}) + plots + details(tables));
}

std::string roof(const Report& report) {
  if (report.products.empty() && report.peaks.empty()) return {};
  std::string inner;
  if (!report.products.empty()) {
    std::vector<Bar> compute, memory;
    std::vector<Row> rows;
    for (const ProductFigure& p : report.products) {
      const std::string label = print("%s, %u %s", p.name.c_str(), p.rows, p.rows == 1 ? "row" : "rows");
      if (p.rows >= 16) compute.push_back({label, p.share_percent(), print("%.0f %% (%.0f GOPS)", p.share_percent(), p.gops)});
      if (p.rows < 16)
        memory.push_back(
            {label, p.bandwidth_percent(), print("%.0f %% (%.1f GB/s)", p.bandwidth_percent(), p.gigabytes_per_second), 0, 0, 2});
      rows.push_back({p.name, p.format, print("%u x %u", p.outputs, p.inputs), print("%u", p.rows), print("%.1f", p.gops),
                      print("%.1f", p.share_percent()), print("%.1f", p.gigabytes_per_second), print("%.1f", p.bandwidth_percent())});
    }
    if (!compute.empty()) inner += "<h3>Many rows: share of the arithmetic's peak</h3>" + bar_chart("Share of peak, percent", compute, 100);
    if (!memory.empty())
      inner += "<h3>Few rows: bytes of weights a second, as a share of sequential reads from memory (more: they came from a cache)</h3>" +
               bar_chart("Share of memory bandwidth, percent", memory, 100);
    inner += details(table({"product", "weights", "outputs x inputs", "rows", "GOPS", "% of peak", "GB/s", "% of DRAM"}, rows));
  }
  if (!report.peaks.empty()) {
    std::vector<Row> rows;
    for (const PeakFigure& p : report.peaks) rows.push_back({p.isa, print("%zu", p.threads), p.what, print("%.1f", p.value), p.unit});
    inner += "<h3>Limits of this machine, measured in this run</h3>" + table({"level", "threads", "what", "best", "unit"}, rows);
  }
  return section("Roof", "What the machine can do, and what this model's products reach of it.", report.setting.text(), inner);
}

std::string http(const Report& report) {
  if (report.http.empty()) return {};
  std::vector<Bar> first, gap, rate;
  std::vector<Row> rows;
  for (const HttpFigure& f : report.http) {
    const std::string label = print("%s, %u %s", f.scenario.c_str(), f.clients,
                                    f.scenario == "newcomer" ? "streams"
                                    : f.clients == 1         ? "client"
                                                             : "clients");
    first.push_back({label, f.first_token.p50, print("%.0f ms, p99 %.0f", f.first_token.p50, f.first_token.p99), 0, f.first_token.p99, 1});
    gap.push_back({label, f.between_tokens.p50,
                   print("%.1f, p99 %.1f, max %.0f", f.between_tokens.p50, f.between_tokens.p99, f.between_tokens.max), 0,
                   f.between_tokens.p99, 2});
    rate.push_back({label, f.output_tokens_per_second, print("%.1f tok/s", f.output_tokens_per_second), 0, 0, 4});
    rows.push_back({f.scenario, print("%u", f.clients), print("%u", f.requests), print("%u", f.errors), print("%.0f", f.prompt_tokens),
                    print("%.0f", f.cached_tokens), print("%.0f", f.output_tokens), print("%.1f", f.first_token.p50),
                    print("%.1f", f.first_token.p99), print("%.1f", f.between_tokens.p50), print("%.1f", f.between_tokens.p99),
                    print("%.1f", f.between_tokens.max), print("%.1f", f.output_tokens_per_second)});
  }
  std::string inner = "<h3>Time to the first token, ms: median, whisker to the 99th percentile</h3>" +
                      bar_chart("Time to first token", first) + "<h3>Time between tokens, ms: median, whisker to the 99th percentile</h3>" +
                      bar_chart("Time between tokens", gap) + "<h3>Tokens a second of all clients together</h3>" +
                      bar_chart("Throughput", rate);
  for (const HttpFigure& f : report.http) {
    if (f.newcomer_prompt_tokens > 0)
      inner += "<p>" +
               escaped(print(
                   "Newcomer of %u tokens among %u streams: first token after %.0f ms; longest gap of a stream %.1f ms before, %.1f ms "
                   "while it was read, %.1f ms after.",
                   f.newcomer_prompt_tokens, f.clients, f.newcomer_first_token_ms, f.before.max, f.during.max, f.after.max)) +
               "</p>\n";
    if (!f.first_error.empty()) inner += "<p class=\"note\">" + escaped(f.scenario + ": " + f.first_error) + "</p>\n";
  }
  inner += details(table({"scenario", "clients", "requests", "errors", "prompt", "cached", "output", "TTFT p50", "TTFT p99", "gap p50",
                          "gap p99", "gap max", "tok/s"},
                         rows));
  return section("Serving over HTTP",
                 "What clients see; prompts are random words, greedy answers are streamed. Tokens as the server's usage counts them.",
                 report.setting.text(), inner);
}

std::string cache(const Report& report) {
  if (report.cache.empty()) return {};
  std::vector<Bar> first, rate;
  std::vector<StackedBar> tokens;
  std::vector<Row> rows;
  std::string notes;
  for (const CacheFigure& f : report.cache) {
    const HttpFigure& l = f.load;
    const std::string label = l.scenario + ", " + f.where;
    const std::string ratio = f.ratio > 0 ? print("%.3f of ", f.ratio) + f.against : "";
    const bool turn = l.scenario == "turn";
    first.push_back({label, l.first_token.p50,
                     print("%.0f ms, p99 %.0f", l.first_token.p50, l.first_token.p99) + (turn && f.ratio > 0 ? "; " + ratio : ""), 0,
                     l.first_token.p99, turn ? 1 : 2});
    if (!turn)
      rate.push_back({label, l.output_tokens_per_second,
                      print("%.1f tok/s", l.output_tokens_per_second) + (f.ratio > 0 ? "; " + ratio : ""), 0, 0, 4});
    const double told = l.tiers.device + l.tiers.host + l.tiers.disk;
    tokens.push_back({label,
                      {{"device", l.tiers.device, 2},
                       {"host", l.tiers.host, 1},
                       {"disk", l.tiers.disk, 4},
                       {"cached", std::max(0.0, l.cached_tokens - told), 3},
                       {"computed", std::max(0.0, l.prompt_tokens - l.cached_tokens), 6}},
                      print("%.0f %% cached", f.cached_percent())});
    std::erase_if(tokens.back().segments, [](const Segment& segment) { return segment.value <= 0; });
    rows.push_back({l.scenario, f.where, print("%u", l.requests), print("%u", l.errors), print("%.0f", l.prompt_tokens),
                    print("%.0f", l.cached_tokens), print("%.0f", l.tiers.device), print("%.0f", l.tiers.host), print("%.0f", l.tiers.disk),
                    print("%.1f", l.first_token.p50), print("%.1f", l.first_token.p90), print("%.1f", l.first_token.p99),
                    print("%.2f", l.wall_seconds), print("%.1f", l.output_tokens_per_second), ratio});
    if (!l.first_error.empty()) notes += "<p class=\"note\">" + escaped(label + ": " + l.first_error) + "</p>\n";
  }
  std::string inner = "<h3>Time to the first token, ms: median, whisker to the 99th percentile</h3>" +
                      bar_chart("Time to first token by scenario", first) + "<h3>Prompt tokens of a request, by where they came from</h3>" +
                      stacked_bars("Prompt tokens by tier", tokens, "tokens") +
                      legend({{"device", 2}, {"host", 1}, {"disk", 4}, {"cached, server does not tell where", 3}, {"computed", 6}});
  if (!rate.empty()) inner += "<h3>Tokens a second of all clients together</h3>" + bar_chart("Throughput by scenario", rate);
  inner += notes + details(table({"scenario", "where", "requests", "errors", "prompt", "cached", "device", "host", "disk", "TTFT p50",
                                  "TTFT p90", "TTFT p99", "seconds", "tok/s", "ratio"},
                                 rows));
  return section("Prefix cache", "What it saves to find a prefix in a tier of the cache. Tokens as the server's usage counts them.",
                 report.setting.text(), inner);
}

}  // namespace

std::string report_html(const Report& report) {
  return "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/><meta name=\"viewport\" content=\"width=device-width, "
         "initial-scale=1\"/>"
         "<title>troupe bench: " +
         escaped(report.setting.model) + "</title><style>" + kStyle + "</style></head>\n<body><main>\n" + head(report) + tiles(report) +
         prefill(report) + decode(report) + step(report) + roof(report) + http(report) + cache(report) + "</main></body></html>\n";
}

}  // namespace troupe::cluster::bench
