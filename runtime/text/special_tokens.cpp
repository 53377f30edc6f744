#include "runtime/text/special_tokens.h"

#include <algorithm>

namespace troupe::text {

void SpecialTokens::add(std::string text, TokenId id, bool is_control) {
  if (text.empty()) return;
  auto& entries = by_first_byte_[static_cast<unsigned char>(text[0])];
  const auto place = std::find_if(entries.begin(), entries.end(), [&](const Entry& entry) { return entry.text.size() < text.size(); });
  entries.insert(place, Entry{std::move(text), id, is_control});
}

std::optional<SpecialTokens::Match> SpecialTokens::find(std::string_view text, std::size_t from,
                                                        const std::vector<TextRange>& allowed) const {
  std::size_t range = 0;
  for (std::size_t at = from; at < text.size(); ++at) {
    const auto& entries = by_first_byte_[static_cast<unsigned char>(text[at])];
    if (entries.empty()) continue;
    while (range < allowed.size() && allowed[range].end <= at) ++range;
    for (const Entry& entry : entries) {
      if (!text.substr(at).starts_with(entry.text)) continue;
      const std::size_t end = at + entry.text.size();
      const bool inside = range < allowed.size() && allowed[range].begin <= at && end <= allowed[range].end;
      if (!entry.is_control || inside) return Match{{at, end}, entry.id};
    }
  }
  return std::nullopt;
}

}  // namespace troupe::text
