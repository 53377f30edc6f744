// The report as text for a terminal. See report.h.
#include "cluster/printable.h"
#include "cluster/bench/report.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <set>

namespace troupe::cluster::bench {
namespace {

class Text {
 public:
  __attribute__((format(printf, 2, 3))) void line(const char* format, ...) {
    char buffer[512];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(buffer, sizeof buffer, format, arguments);
    va_end(arguments);
    text_ += buffer;
    text_ += '\n';
  }
  void raw(const std::string& line) { text_ += line + '\n'; }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

std::string binary_size(std::uint64_t bytes) {
  char text[32];
  if (bytes >= std::uint64_t{1} << 30)
    std::snprintf(text, sizeof text, "%.0f GiB", static_cast<double>(bytes) / (1 << 30));
  else if (bytes >= 1 << 20)
    std::snprintf(text, sizeof text, "%.0f MiB", static_cast<double>(bytes) / (1 << 20));
  else
    std::snprintf(text, sizeof text, "%.0f KiB", static_cast<double>(bytes) / (1 << 10));
  return text;
}

void head(Text& out, const Report& report) {
  const Machine& m = report.machine;
  out.raw("machine   " + m.cpu + ", " + std::to_string(m.cores) + (m.cores == 1 ? " core" : " cores") + ", L2 " + binary_size(m.l2_bytes) +
          ", L3 " + binary_size(m.l3_bytes) + ", " + binary_size(m.memory_bytes) + " of memory; " + m.system);
  out.raw("build     troupe " + report.version + ", " + report.build + "; " + report.date);
  out.raw("model     " + printable(report.setting.model));
  out.raw("setting   " + report.setting.text());
  if (m.load > 0.5 * m.cores)
    out.line("note      something else is running: load average %.1f on %u cores when this began; trust ratios only", m.load, m.cores);
  for (const std::string& note : report.notes) out.raw("note      " + note);
}

void prefill(Text& out, const Report& report) {
  if (report.prefill.empty()) return;
  out.raw("\nprefill: one prompt in one step (" + report.setting.text() + ")");
  out.line("%8s %14s %14s %10s %10s %10s", "tokens", "median tok/s", "best tok/s", "spread %", "ms", "GFLOPS");
  for (const PrefillFigure& f : report.prefill)
    out.line("%8u %14.1f %14.1f %10.1f %10.1f %10.1f", f.tokens, f.tokens_per_second.median, f.tokens_per_second.best,
             f.tokens_per_second.spread_percent(), f.tokens * 1e3 / std::max(1e-9, f.tokens_per_second.median), f.gflops);
}

double dram_peak(const Report& report) {
  double peak = 0;
  for (const PeakFigure& p : report.peaks)
    if (p.what == "DRAM read" && p.threads == report.setting.threads) peak = std::max(peak, p.value);
  return peak;
}

void decode(Text& out, const Report& report) {
  if (report.decode.empty()) return;
  const double dram = dram_peak(report);
  out.raw("\ndecode: the shard alone (" + report.setting.text() + ")");
  out.line("%8s %8s %14s %14s %12s %10s %10s %8s%s", "context", "batch", "median tok/s", "best tok/s", "tok/s each", "spread %", "step ms",
           "GB/s", dram > 0 ? "  of DRAM read" : "");
  std::set<std::uint32_t> contexts;
  for (const DecodeFigure& f : report.decode) {
    contexts.insert(f.context);
    char share[32] = "";
    if (dram > 0) std::snprintf(share, sizeof share, "  %.0f %%", 100 * f.gigabytes_per_second / dram);
    out.line("%8u %8u %14.1f %14.1f %12.1f %10.1f %10.3f %8.1f%s", f.context, f.batch, f.tokens_per_second.median, f.tokens_per_second.best,
             f.tokens_per_second.median / f.batch, f.tokens_per_second.spread_percent(), f.step_ms, f.gigabytes_per_second, share);
  }
  for (const std::uint32_t context : contexts)
    if (const double ratio = four_rows_cost(report, context); ratio > 0)
      out.line("at context %u four rows cost %.2f times one", context, ratio);
}

void step(Text& out, const Report& report) {
  for (const StepFigure& f : report.steps) {
    out.line("\nstep, %s, batch %u, context %u (%s)", f.path.c_str(), f.batch, f.context, report.setting.text().c_str());
    out.line("%-32s %10s %8s %10s %10s", "", "us", "%", "GOPS", "GB/s");
    for (const StepPart& part : f.parts) {
      char gops[16] = "", gbps[16] = "";
      if (part.gops > 0) std::snprintf(gops, sizeof gops, "%.1f", part.gops);
      if (part.gigabytes_per_second > 0) std::snprintf(gbps, sizeof gbps, "%.1f", part.gigabytes_per_second);
      out.line("%-32s %10.1f %8.2f %10s %10s", part.name.c_str(), part.us, 100 * part.us / std::max(1e-9, f.step_us), gops, gbps);
    }
    out.line("%-32s %10.1f %8s", "whole step", f.step_us, "");
    out.line("outside kernels %.2f %%; %.2f %% slower than the bare step of %.1f us", f.outside_percent(), f.loss_percent(),
             f.bare_step_us);
    if (f.threads.empty()) continue;
    std::string line = "processor time a step:";
    for (const ThreadShare& share : f.threads) {
      char text[64];
      std::snprintf(text, sizeof text, "%s %s %.1f us", &share == f.threads.data() ? "" : ",", share.name.c_str(), share.us);
      line += text;
    }
    out.raw(line);
  }
}

void roof(Text& out, const Report& report) {
  if (!report.peaks.empty()) {
    out.raw("\nroof: limits of this machine, measured now");
    out.line("%-14s %8s %-14s %12s", "level", "threads", "what", "best");
    for (const PeakFigure& p : report.peaks)
      out.line("%-14s %8zu %-14s %12.1f %s", p.isa.c_str(), p.threads, p.what.c_str(), p.value, p.unit.c_str());
  }
  if (report.products.empty()) return;
  out.raw("\nroof: products of this model (" + report.setting.text() + ")");
  out.line("%-18s %-6s %13s %6s %10s %10s %10s %12s", "product", "weights", "outputs x in", "rows", "GOPS", "% of peak", "GB/s",
           "% of DRAM");
  for (const ProductFigure& p : report.products)
    out.line("%-18s %-6s %6u x %-5u %6u %10.1f %10.1f %10.1f %12.1f", p.name.c_str(), p.format.c_str(), p.outputs, p.inputs, p.rows, p.gops,
             p.share_percent(), p.gigabytes_per_second, p.bandwidth_percent());
}

void http(Text& out, const Report& report) {
  if (report.http.empty()) return;
  out.raw("\nhttp: what clients see (" + report.setting.text() + "); times in ms");
  out.line("%-10s %7s %5s %6s %8s %7s | %8s %8s | %7s %7s %7s | %8s", "scenario", "clients", "req", "errors", "prompt", "cached",
           "TTFT p50", "p99", "gap p50", "p99", "max", "tok/s");
  for (const HttpFigure& f : report.http) {
    out.line("%-10s %7u %5u %6u %8.0f %7.0f | %8.1f %8.1f | %7.1f %7.1f %7.1f | %8.1f", f.scenario.c_str(), f.clients, f.requests, f.errors,
             f.prompt_tokens, f.cached_tokens, f.first_token.p50, f.first_token.p99, f.between_tokens.p50, f.between_tokens.p99,
             f.between_tokens.max, f.output_tokens_per_second);
    if (f.newcomer_prompt_tokens > 0)
      out.line("           newcomer of %u tokens: TTFT %.1f; longest gap of a stream before %.1f, during %.1f, after %.1f",
               f.newcomer_prompt_tokens, f.newcomer_first_token_ms, f.before.max, f.during.max, f.after.max);
    if (!f.first_token_by_turn.empty()) {
      std::string line = "           TTFT p50 by turn:";
      for (const double ms : f.first_token_by_turn) {
        char text[24];
        std::snprintf(text, sizeof text, " %.1f", ms);
        line += text;
      }
      out.raw(line);
    }
    if (!f.first_error.empty()) out.raw("           first error: " + printable(f.first_error));
  }
}

void cache(Text& out, const Report& report) {
  if (report.cache.empty()) return;
  out.raw("\ncache: what the prefix cache saves (" + report.setting.text() + "); times in ms, tokens a request");
  out.line("%-10s %-12s %5s %6s %8s %7s %7s %7s %7s | %8s %8s %8s | %8s | %s", "scenario", "where", "req", "errors", "prompt", "cached",
           "device", "host", "disk", "TTFT p50", "p90", "p99", "tok/s", "ratio");
  for (const CacheFigure& f : report.cache) {
    const HttpFigure& l = f.load;
    char ratio[64] = "";
    if (f.ratio > 0) std::snprintf(ratio, sizeof ratio, "%.3f of %s", f.ratio, f.against.c_str());
    out.line("%-10s %-12s %5u %6u %8.0f %7.0f %7.0f %7.0f %7.0f | %8.1f %8.1f %8.1f | %8.1f | %s", l.scenario.c_str(), f.where.c_str(),
             l.requests, l.errors, l.prompt_tokens, l.cached_tokens, l.tiers.device, l.tiers.host, l.tiers.disk, l.first_token.p50,
             l.first_token.p90, l.first_token.p99, l.output_tokens_per_second, ratio);
    if (l.scenario == "mcts" || l.scenario == "trace")
      out.line("           %.2f s in all; %.1f %% of the prompt tokens came from the cache", l.wall_seconds, f.cached_percent());
    if (!l.first_error.empty()) out.raw("           first error: " + printable(l.first_error));
  }
}

}  // namespace

std::string report_table(const Report& report) {
  Text out;
  head(out, report);
  prefill(out, report);
  decode(out, report);
  step(out, report);
  roof(out, report);
  http(out, report);
  cache(out, report);
  if (report.interrupted) out.raw("\ninterrupted: only what was measured until then");
  return out.take();
}

}  // namespace troupe::cluster::bench
