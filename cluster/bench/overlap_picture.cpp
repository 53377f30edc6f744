// See overlap_picture.h.
#include "cluster/bench/overlap_picture.h"

#include "cluster/bench/charts.h"
#include "cluster/bench/print.h"
#include "runtime/plan/forward_plan.h"

#include <algorithm>
#include <array>
#include <optional>

namespace troupe::cluster::bench {
namespace {

constexpr double kWidth = 860, kLabels = 96, kRight = 14, kLane = 24, kSpace = 5, kBetween = 34, kTop = 30;
constexpr double kCharacter = 6.0;
constexpr std::size_t kLayers = 2, kLanes = 4;

constexpr const char* kStyle =
    "<style>text{font:11px sans-serif;fill:#333}.title{font-weight:bold;font-size:12px}.in{fill:#fff}.track{fill:#8881}"
    ".a{fill:#1f77b4}.b{fill:#ff7f0e}.c{fill:#2e8b57}.d{fill:#9467bd}.ma{fill:#2c5f8a}.mb{fill:#b85c00}.mc{fill:#1d5c39}.md{fill:#6b4690}"
    ".wa{fill:#7fb2d9}.wb{fill:#ffc08a}.wc{fill:#8fcfab}.wd{fill:#c7aee0}"
    "@media(prefers-color-scheme:dark){text{fill:#ddd}.in{fill:#fff}}</style>\n";

/// The number at the end of "attention A 3"; -1: none, as of "embed".
int layer_of(const TraceSpan& span) {
  const auto space = span.name.rfind(' ');
  return space == std::string::npos ? -1 : std::atoi(span.name.c_str() + space + 1);
}
/// 0 of "attention A 3"; none of "attention 3".
std::optional<std::size_t> part_of(const TraceSpan& span) {
  const auto space = span.name.find(' ');
  if (space == std::string::npos || space + 2 >= span.name.size() || span.name[space + 2] != ' ') return {};
  return std::min<std::size_t>(static_cast<std::size_t>(span.name[space + 1] - 'A'), plan::kMostParts - 1);
}
bool is_mlp(const TraceSpan& span) { return span.name.starts_with("mlp"); }

/// "a" of the first part, "wa" on the wire, "ma" of an MLP.
std::string style_of(const TraceSpan& span) {
  return std::string(span.on_wire ? "w" : is_mlp(span) ? "m" : "") + static_cast<char>('a' + part_of(span).value_or(0));
}

/// "attn A", "mlp"; on the wire only the part.
std::string short_name(const TraceSpan& span) {
  const auto part = part_of(span);
  std::string name = is_mlp(span) ? "mlp" : "attn";
  return part ? name + ' ' + static_cast<char>('A' + *part) : name;
}

struct Shown {
  std::vector<TraceSpan> spans;
  double begin = 0, end = 0;
};

Shown middle_layers(const std::vector<TraceSpan>& step) {
  int last = 0;
  for (const TraceSpan& span : step) last = std::max(last, layer_of(span));
  const int first = std::max(0, last / 2 - 1);
  Shown out;
  for (const TraceSpan& span : step) {
    const int layer = layer_of(span);
    if (layer < first || layer >= first + static_cast<int>(kLayers)) continue;
    out.begin = out.spans.empty() ? span.begin : std::min(out.begin, span.begin);
    out.end = std::max(out.end, span.end);
    out.spans.push_back(span);
  }
  return out;
}

std::string lanes(const Shown& shown, const std::string& title, double y, double scale) {
  constexpr std::array<const char*, kLanes> kNames{"rank 0 core", "rank 0 wire", "rank 1 core", "rank 1 wire"};
  std::string out = print("<text x=\"%.0f\" y=\"%.1f\" class=\"title\">", kLabels, y - 8) + escaped(title) + "</text>\n";
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    const double top = y + static_cast<double>(lane) * (kLane + kSpace);
    out += print("<text x=\"%.0f\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", kLabels - 8, top + 16, kNames[lane]);
    out += print("<rect x=\"%.0f\" y=\"%.1f\" width=\"%.1f\" height=\"%.0f\" class=\"track\"/>\n", kLabels, top,
                 (shown.end - shown.begin) * scale, kLane);
    for (const TraceSpan& span : shown.spans) {
      if (span.rank * 2 + (span.on_wire ? 1 : 0) != lane) continue;
      const double x = kLabels + (span.begin - shown.begin) * scale, width = (span.end - span.begin) * scale;
      out += print("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.0f\" class=\"%s\"><title>", x, top, std::max(0.5, width - 1),
                   kLane, style_of(span).c_str()) +
             escaped(span.name) + print(", %.1f ms</title></rect>\n", 1e3 * (span.end - span.begin));
      const std::string name = short_name(span);
      if (width > kCharacter * static_cast<double>(name.size()) + 4)
        out += print("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\" class=\"in\">%s</text>\n", x + width / 2, top + 16, name.c_str());
    }
  }
  return out;
}

std::string title_of(const char* what, const Shown& shown) {
  return print("%s: %.0f ms for two layers", what, 1e3 * (shown.end - shown.begin));
}

}  // namespace

std::string overlap_picture(const std::vector<TraceSpan>& plain, const std::vector<TraceSpan>& overlapped) {
  constexpr double kGroup = kLanes * (kLane + kSpace);
  const Shown above = middle_layers(plain), below = middle_layers(overlapped);
  const double longest = std::max({above.end - above.begin, below.end - below.begin, 1e-9});
  const double scale = (kWidth - kLabels - kRight) / longest;
  const double height = kTop + 2 * kGroup + kBetween + 6;
  std::string out = print(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" role=\"img\" "
      "aria-label=\"compute and wire of two ranks, without and with overlap\">\n",
      kWidth, height);
  out += kStyle;
  out += lanes(above, title_of("all rows at once", above), kTop, scale);
  out += lanes(below, title_of("in parts that take turns (ISO)", below), kTop + kGroup + kBetween, scale);
  return out + "</svg>\n";
}

}  // namespace troupe::cluster::bench
