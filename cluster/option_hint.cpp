// See option_hint.h.
#include "cluster/option_hint.h"
#include "cluster/option_table.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace troupe::cluster {
namespace {

constexpr std::size_t kLongestWord = 64;  // a user's text may be of any length, and the comparison takes its square

/// Letters to add, remove or replace.
std::size_t edits(std::string_view from, std::string_view to) {
  std::vector<std::size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= from.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= to.size(); ++j) {
      const std::size_t replaced = diagonal + (from[i - 1] == to[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, replaced}));
    }
  }
  return row.back();
}

}  // namespace

std::string_view nearest_word(std::string_view word, std::span<const std::string_view> words) {
  if (word.size() < 3 || word.size() > kLongestWord) return {};
  for (const std::string_view candidate : words)
    if (candidate.starts_with(word)) return candidate;
  std::string_view nearest;
  std::size_t best = std::max<std::size_t>(word.size() / 3, 2) + 1;
  for (const std::string_view candidate : words)
    if (const std::size_t distance = edits(word, candidate); distance < std::min(best, candidate.size())) {
      best = distance;
      nearest = candidate;
    }
  return nearest;
}

std::string option_hint(std::string_view given, unsigned commands, std::string_view dashes) {
  given.remove_prefix(std::min(given.find_first_not_of('-'), given.size()));
  std::string word(given);
  std::replace(word.begin(), word.end(), '_', '-');
  std::vector<std::string_view> names;
  for (const OptionRow& row : option_table())
    if (!row.hidden && takes(static_cast<CommandBits>(commands), row)) names.push_back(row.name);
  const std::string_view nearest = nearest_word(word, names);
  return nearest.empty() ? std::string() : "; did you mean " + std::string(dashes) + std::string(nearest) + "?";
}

}  // namespace troupe::cluster
