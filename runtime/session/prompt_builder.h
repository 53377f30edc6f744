// PromptBuilder: from a checked request to its exact token ids: chat template, tokenizer, and for a continued turn the parent's own ids.
// Tokenizing goes in slices, so that a long prompt never holds a CAF worker for long. Owned by the RequestSession; one thread at a time.
// Invariant: a continued prompt begins with the parent's exact ids up to the last control token inside the longest common rendered prefix;
// only what lies behind it is tokenized.
#pragma once
#include "messages/error.h"
#include "runtime/session/conversation.h"
#include "runtime/session/request.h"
#include "runtime/text/chat_template.h"
#include "runtime/text/tokenizer.h"

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe::session {

/// A response found in the session store.
struct ParentResponse {
  std::vector<TokenId> tokens;  // prompt and output, from the root on
  std::uint32_t prompt_tokens = 0;
  Hash128 template_id;  // text_id() of those that made the tokens
  std::string record;
};

/// Of template and tokenizer together: ids of a response mean the same only where it is equal.
Hash128 text_id(const text::ChatTemplate& chat_template, const text::Tokenizer& tokenizer);

class PromptBuilder {
 public:
  static constexpr std::size_t kSliceBytes = 64 * 1024;

  /// Renders; tokenizing comes with step(). Errors: what the template raises, an empty prompt, an unreadable parent record, ids out of
  /// the vocabulary, in the prompt as in stop_token_ids and logit_bias.
  static Result<PromptBuilder> make(const Request& request, const text::ChatTemplate& chat_template,
                                    std::shared_ptr<const text::Tokenizer> tokenizer, const ParentResponse* parent);
  /// Tokenizes one slice; false when there is nothing left to do.
  bool step();
  const std::vector<TokenId>& tokens() const { return tokens_; }
  std::vector<TokenId> take_tokens() { return std::move(tokens_); }
  /// Bytes of text that are to be tokenized.
  std::size_t text_bytes() const { return text_bytes_; }
  /// What is to be tokenized, as one text: of a chat its rendered template. Before step().
  std::string text() const;
  /// Tokens taken over from the parent; 0 without one.
  std::uint32_t inherited() const { return inherited_; }
  /// The parent's earlier turns render differently now, so its ids are of no use behind that place.
  bool template_rewrote() const { return template_rewrote_; }
  /// What is to be stored with the response; without output yet.
  const Conversation& conversation() const { return conversation_; }

 private:
  PromptBuilder() = default;
  /// Text or ids behind those of `parent`, if there is one.
  std::optional<Error> start_plain(const Request& request, const text::ChatTemplate& chat_template, const ParentResponse* parent);
  std::optional<Error> start_chat(const Request& request, const text::ChatTemplate& chat_template, const ParentResponse* parent);
  std::shared_ptr<const text::Tokenizer> tokenizer_;
  Conversation conversation_;
  std::vector<std::vector<text::TextPiece>> slices_;
  std::size_t next_slice_ = 0;
  std::size_t text_bytes_ = 0;
  std::vector<TokenId> tokens_;
  std::uint32_t inherited_ = 0;
  bool template_rewrote_ = false;
};

/// Cuts pieces into slices of about `slice_bytes` that tokenize to the same ids one by one as together. A cut is made only behind a letter:
/// before a single space and another letter, or before a mark that ends a word. No pre-tokenizer rule in use joins text across it. Text
/// without such a place (a megabyte of blanks, or of one word) stays whole.
std::vector<std::vector<text::TextPiece>> slice_pieces(std::vector<text::TextPiece> pieces, std::size_t slice_bytes);

}  // namespace troupe::session
