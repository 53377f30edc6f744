#include "runtime/session/prompt_builder.h"

#include "messages/error_reasons.h"
#include "runtime/base/hash.h"
#include "runtime/session/rendered_text.h"

#include <algorithm>

namespace troupe::session {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/// U+5000 ... U+8FFF, all of them letters.
bool ends_with_ideograph(std::string_view text) {
  if (text.size() < 3) return false;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[text.size() - i]); };
  return byte(3) >= 0xe5 && byte(3) <= 0xe8 && (byte(2) & 0xc0) == 0x80 && (byte(1) & 0xc0) == 0x80;
}

bool starts_with_mark(std::string_view text) {
  constexpr std::string_view kMarks[] = {"\u3002", "\uff0c", "\u3001"};  // full stop and commas of Chinese and Japanese
  if (std::string_view(".,;:!?)\n").find(text.front()) != std::string_view::npos) return true;
  return std::any_of(std::begin(kMarks), std::end(kMarks), [&](std::string_view mark) { return text.starts_with(mark); });
}

bool may_cut(std::string_view text, std::size_t at) {
  const std::string_view before = text.substr(0, at), behind = text.substr(at);
  const bool letter = is_letter(before.back());
  if (behind.front() == ' ') return letter && behind.size() > 1 && is_letter(behind[1]);
  return (letter || ends_with_ideograph(before)) && starts_with_mark(behind);
}

/// First place to cut at or behind `from`; npos if there is none.
std::size_t find_cut(const std::string& text, std::size_t from) {
  for (std::size_t i = std::max<std::size_t>(from, 1); i < text.size(); ++i)
    if (may_cut(text, i)) return i;
  return std::string::npos;
}

Error bad_value(std::string text, std::string parameter) {
  return make_error(ErrorClass::kInvalidRequest, ErrorReason::kInvalidValue, std::move(text), std::move(parameter));
}

std::optional<Error> check_ids(const std::vector<TokenId>& ids, std::size_t vocabulary, const char* parameter) {
  const auto bad = std::find_if(ids.begin(), ids.end(), [&](TokenId id) { return id >= vocabulary; });
  if (bad == ids.end()) return std::nullopt;
  return bad_value(std::string(parameter) + ": token id " + std::to_string(*bad) + " is not in the vocabulary (" +
                       std::to_string(vocabulary) + " tokens)",
                   parameter);
}

}  // namespace

Hash128 text_id(const text::ChatTemplate& chat_template, const text::Tokenizer& tokenizer) {
  return base::Hasher().add(chat_template.id()).add(tokenizer.id()).finish();
}

std::vector<std::vector<text::TextPiece>> slice_pieces(std::vector<text::TextPiece> pieces, std::size_t slice_bytes) {
  std::vector<std::vector<text::TextPiece>> slices(1);
  std::size_t used = 0;
  for (auto& piece : pieces) {
    std::string rest = std::move(piece.text);
    while (used + rest.size() > slice_bytes) {
      const std::size_t cut = find_cut(rest, used < slice_bytes ? slice_bytes - used : 0);
      if (cut == std::string::npos) break;
      slices.back().push_back({rest.substr(0, cut), piece.control_tokens});
      slices.emplace_back();
      rest.erase(0, cut);
      used = 0;
    }
    used += rest.size();
    slices.back().push_back({std::move(rest), piece.control_tokens});
  }
  return slices;
}

Result<PromptBuilder> PromptBuilder::make(const Request& request, const text::ChatTemplate& chat_template,
                                          std::shared_ptr<const text::Tokenizer> tokenizer, const ParentResponse* parent) {
  PromptBuilder builder;
  builder.tokenizer_ = std::move(tokenizer);
  const std::size_t vocabulary = builder.tokenizer_->size();
  if (auto error = check_ids(request.stop_tokens, vocabulary, "stop_token_ids")) return *error;
  if (auto error = check_ids(request.sampling.bias_tokens, vocabulary, "logit_bias")) return *error;
  const bool chat = std::holds_alternative<std::vector<InputItem>>(request.input);
  if (auto error = chat ? builder.start_chat(request, chat_template, parent) : builder.start_plain(request, chat_template, parent))
    return *error;
  for (const auto& slice : builder.slices_)
    for (const auto& piece : slice) builder.text_bytes_ += piece.text.size();
  return builder;
}

std::optional<Error> PromptBuilder::start_plain(const Request& request, const text::ChatTemplate& chat_template,
                                                const ParentResponse* parent) {
  if (parent != nullptr) {
    if (parent->template_id != text_id(chat_template, *tokenizer_))
      return bad_value("previous_response_id was made with another model, whose tokens mean something else here", "previous_response_id");
    tokens_ = parent->tokens;
    inherited_ = static_cast<std::uint32_t>(tokens_.size());
  }
  if (const auto* tokens = std::get_if<std::vector<TokenId>>(&request.input)) {
    const char* name = parent != nullptr ? "continuations" : request.endpoint == Endpoint::kTokenize ? "tokens" : "prompt";
    if (auto error = check_ids(*tokens, tokenizer_->size(), name)) return error;
    tokens_.insert(tokens_.end(), tokens->begin(), tokens->end());
    return std::nullopt;
  }
  const auto bos = tokenizer_->bos();
  if (parent == nullptr && request.add_special && tokenizer_->add_bos() && bos) tokens_.push_back(*bos);
  slices_ = slice_pieces({{std::get<std::string>(request.input), request.parse_special}}, kSliceBytes);
  return std::nullopt;
}

std::optional<Error> PromptBuilder::start_chat(const Request& request, const text::ChatTemplate& chat_template,
                                               const ParentResponse* parent) {
  const auto& items = std::get<std::vector<InputItem>>(request.input);
  std::optional<Conversation> before;
  if (parent != nullptr) {
    auto read = from_record(parent->record);
    if (!read) return read.error();
    before = *std::move(read);
    conversation_ = continue_conversation(*before, items, request.instructions, request.tools_json);
  } else {
    conversation_ = {request.instructions, items, {}, request.tools_json};
  }
  auto rendered = chat_template.render(to_chat_messages(conversation_), request.generation_prompt, request.tools_json);
  if (!rendered) return rendered.error();
  RenderedText whole(*rendered);

  std::size_t known_bytes = 0;
  if (before && parent->template_id == text_id(chat_template, *tokenizer_)) {
    auto rendered_before = chat_template.render(to_chat_messages(*before), true, before->tools_json);
    if (rendered_before) {
      RenderedText old(*rendered_before);
      const std::size_t old_prompt_bytes = old.size();
      old.append(before->output, false);
      const auto cut = find_common_cut(old, whole, parent->tokens, *tokenizer_);
      template_rewrote_ = cut.common_bytes < old_prompt_bytes;
      known_bytes = cut.bytes;
      tokens_.assign(parent->tokens.begin(), parent->tokens.begin() + static_cast<std::ptrdiff_t>(cut.tokens));
      inherited_ = static_cast<std::uint32_t>(cut.tokens);
    }
  } else if (before) {
    template_rewrote_ = true;
  }
  slices_ = slice_pieces(whole.pieces_from(known_bytes), kSliceBytes);
  return std::nullopt;
}

std::string PromptBuilder::text() const {
  std::string text;
  for (const auto& slice : slices_)
    for (const auto& piece : slice) text += piece.text;
  return text;
}

bool PromptBuilder::step() {
  if (next_slice_ == slices_.size()) return false;
  auto& slice = slices_[next_slice_++];
  const auto ids = tokenizer_->encode(std::span<const text::TextPiece>(slice));
  tokens_.insert(tokens_.end(), ids.begin(), ids.end());
  slice = {};
  return next_slice_ < slices_.size();
}

}  // namespace troupe::session
