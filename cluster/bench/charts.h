// Plots as inline SVG: horizontal bars, stacked bars, lines. Colours are classes c1 ... c6 of the page around them, so that one style
// sheet serves light and dark. The markup is well-formed XML; every text given is escaped here. Pure.
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace troupe::cluster::bench {

std::string escaped(std::string_view text);

struct Bar {
  std::string label;
  double value = 0;
  std::string text;          // beside its end
  double low = 0, high = 0;  // whisker; equal: none
  int colour = 1;            // 1...6
};
/// `full`: the value of a whole line, marked if a bar could pass it; 0: the largest value.
std::string bar_chart(const std::string& title, const std::vector<Bar>& bars, double full = 0);

struct Segment {
  std::string name;
  double value = 0;
  int colour = 1;
};
struct StackedBar {
  std::string label;
  std::vector<Segment> segments;
  std::string text;
};
/// All on one scale; what is wide enough carries its name. `unit` of the values, in their tips.
std::string stacked_bars(const std::string& title, const std::vector<StackedBar>& bars, const std::string& unit = "us");

struct Line {
  std::string name;
  std::vector<double> values;  // one an x; 0: none
  int colour = 1;
};
/// y from 0; x are evenly spaced labels.
std::string line_chart(const std::string& title, const std::vector<std::string>& x, const std::vector<Line>& lines,
                       const std::string& x_title, const std::string& y_title);

/// Squares of colour with their names.
std::string legend(const std::vector<std::pair<std::string, int>>& entries);

}  // namespace troupe::cluster::bench
