// RenderedText: the output of a chat template as one string that knows, byte by byte, where control tokens are allowed.
// Used to find how far a parent's exact token ids can be taken over into the next turn. Plain value; one thread at a time.
#pragma once
#include "messages/ids.h"
#include "runtime/text/tokenizer.h"

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::session {

class RenderedText {
 public:
  explicit RenderedText(std::span<const text::TextPiece> pieces);
  void append(std::string_view text, bool control_tokens);
  std::size_t size() const { return text_.size(); }
  std::string_view text() const { return text_; }
  /// Bytes that are equal from the start on. Whether control tokens are allowed may differ: a role's name may come from the template in one
  /// text and from the caller in the other.
  std::size_t common_prefix(const RenderedText& other) const;
  bool allows_control(std::size_t from, std::size_t to) const { return allowed_.find('\0', from) >= to; }
  std::vector<text::TextPiece> pieces_from(std::size_t offset) const;
  /// Whether a control token stands at `offset`, in text that allows it.
  bool control_token_at(std::size_t offset, const text::Tokenizer& tokenizer) const;

 private:
  std::string text_;
  std::string allowed_;  // '\1' where control tokens are allowed, one byte a byte of text_
};

struct CommonCut {
  std::size_t tokens = 0;        // ids of the old text that may be kept
  std::size_t bytes = 0;         // where the rest of the new text begins
  std::size_t common_bytes = 0;  // of the two texts
};

/// Longest run of `old_ids` (which spell `old_text`, or a beginning of it) that lies within the common prefix of both texts and is followed
/// by a control token in the new one; it ends before a place that is a control token in one text and plain text in the other. Control
/// tokens part the tokenizer's work, so ids before and behind such a cut are independent.
CommonCut find_common_cut(const RenderedText& old_text, const RenderedText& new_text, std::span<const TokenId> old_ids,
                          const text::Tokenizer& tokenizer);

}  // namespace troupe::session
