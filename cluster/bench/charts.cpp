// See charts.h. Coordinates are those of a view box 760 wide; the page scales it.
#include "cluster/bench/charts.h"

#include "cluster/bench/print.h"
#include "cluster/printable.h"

#include <algorithm>
#include <cmath>

namespace troupe::cluster::bench {
namespace {

constexpr double kWidth = 760, kLabels = 190, kRow = 26, kBar = 16;
constexpr double kCharacter = 6.2;  // width of one at 11 px, about

std::string svg(const std::string& title, double height, const std::string& body) {
  return print("<svg viewBox=\"0 0 %.0f %.0f\" role=\"img\" aria-label=\"", kWidth, height) + escaped(title) + "\">\n" + body + "</svg>\n";
}

std::string text(double x, double y, const char* anchor, const char* style, std::string_view content) {
  return print("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" class=\"%s\">", x, y, anchor, style) + escaped(content) + "</text>\n";
}

std::string rectangle(double x, double y, double width, double height, int colour, std::string_view tip) {
  return print("<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" rx=\"2\" class=\"c%d\"><title>", x, y, std::max(0.0, width),
               height, colour) +
         escaped(tip) + "</title></rect>\n";
}

/// A round number of steps of 1, 2 or 5 times a power of ten that covers `largest`.
double tick_of(double largest) {
  if (largest <= 0) return 1;
  const double raw = largest / 4, power = std::pow(10, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0, 10.0})
    if (factor * power >= raw) return factor * power;
  return 10 * power;
}

/// Width that is left for bars beside the longest of their texts.
template <class Bars>
double width_of_bars(const Bars& bars) {
  std::size_t longest = 0;
  for (const auto& bar : bars) longest = std::max(longest, bar.text.size());
  return std::max(200.0, kWidth - kLabels - 16 - kCharacter * static_cast<double>(longest));
}

std::string number(double value) {
  return print(value >= 100 || value == std::floor(value) ? "%.0f" : value >= 10 ? "%.1f" : "%.3g", value);
}

}  // namespace

std::string escaped(std::string_view source) {
  std::string out;
  for (const char c : printable(source)) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string bar_chart(const std::string& title, const std::vector<Bar>& bars, double full) {
  double largest = full;
  for (const Bar& bar : bars) largest = std::max({largest, bar.value, bar.high});
  const double scale = largest > 0 ? width_of_bars(bars) / largest : 0;
  const double height = kRow * static_cast<double>(bars.size()) + 8;
  std::string body;
  double y = 4;
  for (const Bar& bar : bars) {
    const double middle = y + kRow / 2;
    body += text(kLabels - 10, middle + 4, "end", "label", bar.label);
    if (full > 0)
      body += print("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"2\" class=\"track\"/>\n", kLabels, middle - kBar / 2,
                    full * scale, kBar);
    body += rectangle(kLabels, middle - kBar / 2, bar.value * scale, kBar, bar.colour, bar.label + ": " + bar.text);
    double end = bar.value;
    if (bar.high > bar.low) {
      body += print("<path d=\"M%.1f %.1fH%.1f\" class=\"whisker\"/>\n", kLabels + bar.low * scale, middle, kLabels + bar.high * scale);
      end = std::max(end, bar.high);
    }
    body += text(kLabels + std::max(end, full) * scale + 8, middle + 4, "start", "value", bar.text);
    y += kRow;
  }
  return svg(title, height, body);
}

std::string stacked_bars(const std::string& title, const std::vector<StackedBar>& bars, const std::string& unit) {
  constexpr double kTall = 26, kSpace = 40;
  double largest = 0;
  for (const StackedBar& bar : bars) {
    double sum = 0;
    for (const Segment& segment : bar.segments) sum += segment.value;
    largest = std::max(largest, sum);
  }
  const double scale = largest > 0 ? width_of_bars(bars) / largest : 0;
  std::string body;
  double y = 4;
  for (const StackedBar& bar : bars) {
    body += text(kLabels - 10, y + kTall / 2 + 4, "end", "label", bar.label);
    double x = kLabels;
    for (const Segment& segment : bar.segments) {
      const double width = segment.value * scale;
      body += rectangle(x, y, std::max(0.4, width - 1.5), kTall, segment.colour, segment.name + ": " + number(segment.value) + " " + unit);
      if (width > kCharacter * static_cast<double>(segment.name.size()) + 8)
        body += text(x + width / 2, y + kTall / 2 + 4, "middle", "inside", segment.name);
      x += width;
    }
    body += text(x + 8, y + kTall / 2 + 4, "start", "value", bar.text);
    y += kSpace;
  }
  return svg(title, y, body);
}

std::string line_chart(const std::string& title, const std::vector<std::string>& x, const std::vector<Line>& lines,
                       const std::string& x_title, const std::string& y_title) {
  constexpr double kLeft = 64, kTop = 26, kPlot = 190, kRight = 130;
  double largest = 0;
  for (const Line& line : lines)
    for (const double value : line.values) largest = std::max(largest, value);
  const double tick = tick_of(largest), top = tick * std::ceil(std::max(largest, 1e-9) / tick), width = kWidth - kLeft - kRight;
  const auto place_x = [&](std::size_t i) {
    return x.size() < 2 ? kLeft + width / 2 : kLeft + 24 + (width - 48) * static_cast<double>(i) / static_cast<double>(x.size() - 1);
  };
  const auto place_y = [&](double value) { return kTop + kPlot * (1 - value / top); };
  std::string body = text(kLeft, 12, "start", "axis", y_title);
  for (double value = 0; value <= top * 1.0001; value += tick) {
    body += print("<path d=\"M%.1f %.1fH%.1f\" class=\"grid\"/>\n", kLeft, place_y(value), kLeft + width);
    body += text(kLeft - 8, place_y(value) + 4, "end", "axis", number(value));
  }
  for (std::size_t i = 0; i < x.size(); ++i) body += text(place_x(i), kTop + kPlot + 18, "middle", "axis", x[i]);
  body += text(kLeft + width, kTop + kPlot + 34, "end", "axis", x_title);
  double last_label = -100;
  for (const Line& line : lines) {
    std::string path;
    std::string dots;
    double end_x = 0, end_y = 0;
    for (std::size_t i = 0; i < line.values.size(); ++i) {
      if (line.values[i] <= 0) continue;
      end_x = place_x(i);
      end_y = place_y(line.values[i]);
      path += print("%c%.1f %.1f", path.empty() ? 'M' : 'L', end_x, end_y);
      dots += print("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" class=\"c%d\"><title>", end_x, end_y, line.colour) +
              escaped(line.name + ", " + x[i] + ": " + number(line.values[i])) + "</title></circle>\n";
      // The first line's values stand above it, the last one's below; those between have their tips only.
      if (&line == &lines.front()) dots += text(end_x, end_y - 9, "middle", "value", number(line.values[i]));
      if (lines.size() > 1 && &line == &lines.back()) dots += text(end_x, end_y + 18, "middle", "value", number(line.values[i]));
    }
    if (path.empty()) continue;
    body += "<path d=\"" + path + print("\" class=\"line l%d\"/>\n", line.colour) + dots;
    if (lines.size() > 1) {
      if (std::abs(end_y - last_label) < 14) end_y = last_label + 14;
      last_label = end_y;
      body += text(end_x + 22, end_y + 4, "start", "label", line.name);
    }
  }
  return svg(title, kTop + kPlot + 42, body);
}

std::string legend(const std::vector<std::pair<std::string, int>>& entries) {
  std::string out = "<p class=\"legend\">";
  for (const auto& [name, colour] : entries) out += print("<span class=\"key k%d\"></span>", colour) + escaped(name) + " ";
  return out + "</p>\n";
}

}  // namespace troupe::cluster::bench
