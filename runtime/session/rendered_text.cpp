#include "runtime/session/rendered_text.h"

#include <algorithm>

namespace troupe::session {

RenderedText::RenderedText(std::span<const text::TextPiece> pieces) {
  for (const auto& piece : pieces) append(piece.text, piece.control_tokens);
}

void RenderedText::append(std::string_view text, bool control_tokens) {
  text_ += text;
  allowed_.append(text.size(), control_tokens ? '\1' : '\0');
}

std::size_t RenderedText::common_prefix(const RenderedText& other) const {
  const std::size_t size = std::min(text_.size(), other.text_.size());
  std::size_t i = 0;
  while (i < size && text_[i] == other.text_[i]) ++i;
  return i;
}

std::vector<text::TextPiece> RenderedText::pieces_from(std::size_t offset) const {
  std::vector<text::TextPiece> pieces;
  while (offset < text_.size()) {
    const char allowed = allowed_[offset];
    const std::size_t end = std::min(allowed_.find_first_not_of(allowed, offset), text_.size());
    pieces.push_back({text_.substr(offset, end - offset), allowed != '\0'});
    offset = end;
  }
  return pieces;
}

bool RenderedText::control_token_at(std::size_t offset, const text::Tokenizer& tokenizer) const {
  constexpr std::size_t kLongestName = 64;
  std::size_t end = offset;
  while (end < text_.size() && end - offset < kLongestName && allowed_[end] != '\0') ++end;
  if (end == offset) return false;
  const auto ids = tokenizer.encode(std::string_view(text_).substr(offset, end - offset), true);
  return !ids.empty() && tokenizer.is_control(ids.front());
}

namespace {

/// Whether a token of the old text, at [from, to), means the same in the new one.
bool same_meaning(const RenderedText& old_text, const RenderedText& new_text, std::size_t from, std::size_t to, bool is_control,
                  const text::Tokenizer& tokenizer) {
  if (is_control) return new_text.allows_control(from, to);
  for (std::size_t i = from; i < to; ++i)
    if (new_text.allows_control(i, i + 1) && !old_text.allows_control(i, i + 1) && new_text.control_token_at(i, tokenizer)) return false;
  return true;
}

}  // namespace

CommonCut find_common_cut(const RenderedText& old_text, const RenderedText& new_text, std::span<const TokenId> old_ids,
                          const text::Tokenizer& tokenizer) {
  CommonCut best;
  best.common_bytes = old_text.common_prefix(new_text);
  std::size_t bytes = 0;
  for (std::size_t i = 0;; ++i) {
    const bool old_part_ends = i == old_ids.size() || tokenizer.is_control(old_ids[i]);
    if (old_part_ends && i > 0 && bytes <= best.common_bytes && new_text.control_token_at(bytes, tokenizer)) {
      best.tokens = i;
      best.bytes = bytes;
    }
    if (i == old_ids.size()) return best;
    const auto token = tokenizer.bytes(old_ids[i]);
    // Ids that do not spell the text (a token without text, other words than remembered) end what can be taken over.
    if (old_text.text().substr(std::min(bytes, old_text.size()), token.size()) != token || token.empty()) return best;
    if (bytes + token.size() > best.common_bytes) return best;
    if (!same_meaning(old_text, new_text, bytes, bytes + token.size(), tokenizer.is_control(old_ids[i]), tokenizer)) return best;
    bytes += token.size();
  }
}

}  // namespace troupe::session
