// StreamDecoder: tokens in, whole UTF-8 characters out, stop strings matched and never leaked. One per choice; owned by its session.
#pragma once
#include "messages/ids.h"
#include "runtime/text/tokenizer.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe::text {

class StreamDecoder {
 public:
  StreamDecoder(std::shared_ptr<const Tokenizer> tokenizer, std::vector<std::string> stops);
  struct Piece {
    std::string text;                 // may be sent now; valid UTF-8 (a byte sequence that never completes becomes U+FFFD)
    std::uint32_t tokens = 0;         // tokens of the output that `text` brings to completion, in order
    std::optional<std::string> stop;  // this stop string matched: text ends before it, nothing more will come
  };
  /// Control tokens give no text.
  Piece push(TokenId token);
  /// End of the output: what was held back (an incomplete character, the beginning of a stop string).
  Piece finish();
  bool stopped() const;
  /// Tokens whose text lies wholly before the stop cut: what may be stored and continued.
  std::uint32_t tokens_before_stop() const;

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::vector<std::string> stops_;
  std::string bytes_;              // not yet whole characters
  std::string held_;               // whole characters that may begin a stop string
  std::vector<std::size_t> ends_;  // output offset at which each unsent token ends
  std::size_t offset_ = 0, sent_ = 0;
  std::uint32_t complete_ = 0;
  bool stopped_ = false;
};

}  // namespace troupe::text
