// Byte-level BPE tokenizer, built from the vocabulary in a model file. Immutable after construction; any thread may use it.
#pragma once
#include "messages/error.h"
#include "messages/ids.h"

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::text {

/// What a model file says about its tokenizer.
struct Vocabulary {
  std::string pre;                  // pre-tokenizer rule, e.g. "smollm"
  std::vector<std::string> tokens;  // byte-level alphabet, as in the file
  std::vector<std::int32_t> types;  // GGUF token types; 3 = control, 4 = user defined
  std::vector<std::string> merges;
  std::optional<TokenId> bos, eos, eot;
  bool add_bos = false, add_space_prefix = false;
};

/// A piece of text to tokenize. Control tokens are recognised only in pieces that say so: never in a user's text.
struct TextPiece {
  std::string text;
  bool control_tokens = false;
};

class Tokenizer {
 public:
  static Result<std::shared_ptr<const Tokenizer>> make(Vocabulary vocabulary);
  ~Tokenizer();

  /// Any bytes are taken. A byte for which the vocabulary has no token (SmolLM2's lacks 21, such as 0x04 and those that UTF-8 never
  /// uses) is left out, as the reference does; with all bytes there, decode(encode(x, false)) == x.
  /// `control_tokens`: whether "<|im_start|>" and the like become their ids, or plain text.
  std::vector<TokenId> encode(std::string_view text, bool control_tokens) const;
  /// Pieces are one text for the merges; a control token is recognised only if it lies wholly in pieces that allow it.
  std::vector<TokenId> encode(std::span<const TextPiece> pieces) const;
  /// Bytes of a token; control tokens give their name. Empty for an id outside the vocabulary.
  std::string_view bytes(TokenId id) const;
  std::string decode(std::span<const TokenId> ids, bool keep_control = true) const;
  bool is_control(TokenId id) const;
  std::optional<TokenId> find(std::string_view token) const;  // a whole token by its text, control tokens too
  std::size_t size() const;
  std::size_t longest() const;  // bytes of the longest token: n tokens never hold more than n times as many
  std::optional<TokenId> bos() const;
  std::optional<TokenId> eos() const;
  bool add_bos() const;  // whether the model wants `bos` before plain text; encode never adds it by itself
  /// All ids that end a generation: eos, eot, <|im_end|>, <|endoftext|> where they exist as control tokens.
  const std::vector<TokenId>& end_of_generation() const;
  /// Hash of vocabulary, merges and rule.
  Hash128 id() const;

 private:
  class State;
  explicit Tokenizer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace troupe::text
