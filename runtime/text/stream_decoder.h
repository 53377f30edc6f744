// StreamDecoder: tokens in, whole UTF-8 characters out, stop strings matched and never leaked. One per choice; owned by its session,
// used by one thread at a time.
// Invariant: all pieces joined are the whole text cut at its stop, however the text falls into tokens. The stop string that is
// complete first wins (of those that end at the same character, the longest).
#pragma once
#include "messages/ids.h"
#include "runtime/text/tokenizer.h"

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::text {

class StreamDecoder {
 public:
  /// Empty stop strings are ignored; their number and length are the caller's to bound.
  StreamDecoder(std::shared_ptr<const Tokenizer> tokenizer, std::vector<std::string> stops);
  struct Piece {
    std::string text;                 // may be sent now; valid UTF-8 (a byte sequence that never completes becomes U+FFFD)
    std::uint32_t tokens = 0;         // tokens of the output that `text` brings to completion, in order
    std::optional<std::string> stop;  // this stop string matched: text ends before it, nothing more will come
  };
  /// Control tokens give no text. After a stop: an empty piece.
  Piece push(TokenId token);
  /// End of the output: what was held back (an incomplete character, the beginning of a stop string).
  Piece finish();
  bool stopped() const { return stopped_; }
  /// Tokens whose text lies wholly before the stop cut: what may be stored and continued. Before the end: those sent so far.
  std::uint32_t tokens_before_stop() const { return complete_; }

 private:
  void append(std::string_view bytes);
  void complete_tokens();
  std::optional<Piece> match_stops(std::size_t checked);
  Piece send(std::size_t length);
  std::size_t held_back() const;

  std::shared_ptr<const Tokenizer> tokenizer_;
  std::vector<std::string> stops_;       // longest first
  std::string bytes_;                    // not yet whole characters
  std::string held_;                     // whole characters that may begin a stop string
  std::deque<std::uint64_t> byte_ends_;  // of tokens whose bytes are not all characters yet: where they end in the stream of bytes
  std::deque<std::uint64_t> text_ends_;  // of the other unsent tokens: where they end in the text
  std::uint64_t bytes_pushed_ = 0, bytes_read_ = 0, text_made_ = 0, text_sent_ = 0;
  std::uint32_t complete_ = 0;
  bool stopped_ = false;
};

}  // namespace troupe::text
