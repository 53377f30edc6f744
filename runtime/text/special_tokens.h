// SpecialTokens: the tokens that are found in text as a whole, before pre-tokenizing: control tokens (only where the caller allows
// them) and user-defined ones (everywhere, as the reference does). Immutable after construction; any thread.
#pragma once
#include "messages/ids.h"

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::text {

/// Bytes [begin, end) of a text.
struct TextRange {
  std::size_t begin, end;
};

class SpecialTokens {
 public:
  struct Match {
    TextRange where;
    TokenId id;
  };
  void add(std::string text, TokenId id, bool is_control);
  /// The leftmost match from `from` on, the longest at its place. A control token counts only inside one of `allowed` (ascending,
  /// disjoint, not touching).
  std::optional<Match> find(std::string_view text, std::size_t from, const std::vector<TextRange>& allowed) const;

 private:
  struct Entry {
    std::string text;
    TokenId id;
    bool is_control;
  };
  std::array<std::vector<Entry>, 256> by_first_byte_;  // longest first
};

}  // namespace troupe::text
