#include "runtime/text/tokenizer.h"

#include "messages/error_reasons.h"
#include "runtime/base/hash.h"
#include "runtime/text/byte_alphabet.h"
#include "runtime/text/merge_table.h"
#include "runtime/text/pre_tokenizer.h"
#include "runtime/text/special_tokens.h"

#include <algorithm>
#include <array>
#include <unordered_map>

namespace troupe::text {
namespace {

// GGUF token types.
constexpr std::int32_t kUnknown = 2, kControl = 3, kUserDefined = 4;

/// Names under which models know the end of a turn or text; they count only as control tokens.
constexpr std::array kEndNames{"<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|end_of_text|>", "<|end|>", "<end_of_turn>"};

Error bad_vocabulary(const char* field, const std::string& what) {
  return make_error(ErrorClass::kCorrupted, ErrorReason::kBadModelFile, std::string(field) + ": " + what, field);
}

}  // namespace

class Tokenizer::State {
 public:
  State(Vocabulary given, PreTokenizer pre) : vocabulary(std::move(given)), pre_tokenizer(std::move(pre)) {}

  Vocabulary vocabulary;
  PreTokenizer pre_tokenizer;
  std::vector<std::string> bytes;                          // of every token
  std::unordered_map<std::string_view, TokenId> by_bytes;  // views into `bytes`; text tokens only
  std::unordered_map<std::string_view, TokenId> special;   // by name; control and user-defined tokens
  std::array<TokenId, 256> byte_token{};                   // kNone32: the vocabulary has no token for that byte
  MergeTable merges;
  SpecialTokens special_tokens;
  std::size_t longest = 0;  // bytes
  std::vector<TokenId> ends;
  Hash128 id;

  bool is_control(TokenId token) const { return vocabulary.types[token] == kControl || vocabulary.types[token] == kUnknown; }
  bool is_special(TokenId token) const { return is_control(token) || vocabulary.types[token] == kUserDefined; }

  void index_tokens();
  Status index_merges();
  void collect_ends();
  void compute_id();
  void encode_text(std::string_view text, std::vector<TokenId>& out) const;
};

void Tokenizer::State::index_tokens() {
  bytes.resize(vocabulary.tokens.size());
  for (TokenId token = 0; token < bytes.size(); ++token) {
    const std::string& spelled = vocabulary.tokens[token];
    bytes[token] = is_special(token) ? spelled : bytes_of_symbols(spelled).value_or(spelled);
    longest = std::max(longest, bytes[token].size());
  }
  by_bytes.reserve(bytes.size());
  for (TokenId token = 0; token < bytes.size(); ++token) {
    if (is_special(token)) {
      special.try_emplace(bytes[token], token);
      special_tokens.add(bytes[token], token, is_control(token));
    } else {
      by_bytes.try_emplace(bytes[token], token);  // of equal spellings the lowest id is used
    }
  }
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char symbol = static_cast<char>(byte);
    const auto found = by_bytes.find(std::string_view(&symbol, 1));
    byte_token[byte] = found == by_bytes.end() ? kNone32 : found->second;
  }
}

Status Tokenizer::State::index_merges() {
  std::unordered_map<std::string_view, TokenId> by_spelling;
  by_spelling.reserve(bytes.size());
  for (TokenId token = 0; token < bytes.size(); ++token)
    if (!is_special(token)) by_spelling.try_emplace(vocabulary.tokens[token], token);
  merges.reserve(vocabulary.merges.size());
  std::string merged;
  for (std::size_t i = 0; i < vocabulary.merges.size(); ++i) {
    const std::string_view rule = vocabulary.merges[i];
    const std::size_t space = rule.find(' ', 1);
    if (space == std::string_view::npos || space + 1 >= rule.size())
      return bad_vocabulary("tokenizer.ggml.merges", "merge " + std::to_string(i) + " is not two symbols with a space between");
    const std::string_view left = rule.substr(0, space), right = rule.substr(space + 1);
    merged.assign(left).append(right);
    const auto l = by_spelling.find(left), r = by_spelling.find(right), m = by_spelling.find(merged);
    if (l == by_spelling.end() || r == by_spelling.end() || m == by_spelling.end())
      return bad_vocabulary("tokenizer.ggml.merges", "merge " + std::to_string(i) + " names a symbol that is not in the vocabulary");
    merges.add(l->second, r->second, m->second);
  }
  return ok_status();
}

void Tokenizer::State::collect_ends() {
  const auto add = [this](TokenId token) {
    if (std::find(ends.begin(), ends.end(), token) == ends.end()) ends.push_back(token);
  };
  if (vocabulary.eos) add(*vocabulary.eos);
  if (vocabulary.eot) add(*vocabulary.eot);
  for (const char* name : kEndNames)
    if (const auto found = special.find(name); found != special.end() && is_control(found->second)) add(found->second);
}

void Tokenizer::State::compute_id() {
  base::Hasher hasher;
  hasher.add(std::string_view("tokenizer/1")).add(vocabulary.pre).add(vocabulary.tokens.size());
  for (std::size_t i = 0; i < vocabulary.tokens.size(); ++i)
    hasher.add(vocabulary.tokens[i]).add(static_cast<std::uint64_t>(vocabulary.types[i]));
  hasher.add(vocabulary.merges.size());
  for (const std::string& merge : vocabulary.merges) hasher.add(merge);
  id = hasher.finish();
}

/// Text without special tokens. A byte that the vocabulary has no token for is left out, as the reference does.
void Tokenizer::State::encode_text(std::string_view text, std::vector<TokenId>& out) const {
  std::vector<std::string_view> words;
  pre_tokenizer.split(text, words);
  std::vector<TokenId> symbols;
  for (const std::string_view word : words) {
    if (pre_tokenizer.whole_words_first()) {
      if (const auto whole = by_bytes.find(word); whole != by_bytes.end()) {
        out.push_back(whole->second);
        continue;
      }
    }
    symbols.clear();
    for (const char c : word)
      if (const TokenId token = byte_token[static_cast<unsigned char>(c)]; token != kNone32) symbols.push_back(token);
    merges.merge(symbols);
    out.insert(out.end(), symbols.begin(), symbols.end());
  }
}

Result<std::shared_ptr<const Tokenizer>> Tokenizer::make(Vocabulary vocabulary) {
  if (vocabulary.tokens.empty()) return bad_vocabulary("tokenizer.ggml.tokens", "the vocabulary is empty");
  if (vocabulary.types.size() != vocabulary.tokens.size())
    return bad_vocabulary("tokenizer.ggml.token_type", "the number of types is not that of tokens");
  for (const auto& token : {vocabulary.bos, vocabulary.eos, vocabulary.eot})
    if (token && *token >= vocabulary.tokens.size())
      return bad_vocabulary("tokenizer.ggml.tokens", "token id " + std::to_string(*token) + " is outside the vocabulary");
  auto pre = PreTokenizer::make(vocabulary.pre);
  if (!pre) return pre.error();
  auto state = std::make_unique<State>(std::move(vocabulary), std::move(*pre));
  state->index_tokens();
  if (const Status indexed = state->index_merges(); !indexed) return indexed.error();
  state->collect_ends();
  state->compute_id();
  return std::shared_ptr<const Tokenizer>(new Tokenizer(std::move(state)));
}

Tokenizer::Tokenizer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Tokenizer::~Tokenizer() = default;

std::vector<TokenId> Tokenizer::encode(std::string_view text, bool control_tokens) const {
  const TextPiece piece{std::string(text), control_tokens};
  return encode(std::span(&piece, 1));
}

std::vector<TokenId> Tokenizer::encode(std::span<const TextPiece> pieces) const {
  std::string text;
  std::vector<TextRange> allowed;
  for (const TextPiece& piece : pieces) {
    const TextRange range{text.size(), text.size() + piece.text.size()};
    text += piece.text;
    if (!piece.control_tokens || range.begin == range.end) continue;
    if (!allowed.empty() && allowed.back().end == range.begin)
      allowed.back().end = range.end;
    else
      allowed.push_back(range);
  }
  std::vector<TokenId> out;
  std::size_t done = 0;
  while (done < text.size()) {
    const auto match = state_->special_tokens.find(text, done, allowed);
    const std::size_t end = match ? match->where.begin : text.size();
    state_->encode_text(std::string_view(text).substr(done, end - done), out);
    if (match) out.push_back(match->id);
    done = match ? match->where.end : text.size();
  }
  return out;
}

std::string_view Tokenizer::bytes(TokenId id) const { return id < state_->bytes.size() ? state_->bytes[id] : std::string_view(); }

std::string Tokenizer::decode(std::span<const TokenId> ids, bool keep_control) const {
  std::string out;
  for (const TokenId id : ids)
    if (keep_control || !is_control(id)) out += bytes(id);
  return out;
}

bool Tokenizer::is_control(TokenId id) const { return id < state_->bytes.size() && state_->is_control(id); }

std::optional<TokenId> Tokenizer::find(std::string_view token) const {
  if (const auto found = state_->special.find(token); found != state_->special.end()) return found->second;
  if (const auto found = state_->by_bytes.find(token); found != state_->by_bytes.end()) return found->second;
  return std::nullopt;
}

std::size_t Tokenizer::size() const { return state_->bytes.size(); }
std::size_t Tokenizer::longest() const { return state_->longest; }
std::optional<TokenId> Tokenizer::bos() const { return state_->vocabulary.bos; }
std::optional<TokenId> Tokenizer::eos() const { return state_->vocabulary.eos; }
bool Tokenizer::add_bos() const { return state_->vocabulary.add_bos; }
const std::vector<TokenId>& Tokenizer::end_of_generation() const { return state_->ends; }
Hash128 Tokenizer::id() const { return state_->id; }

}  // namespace troupe::text
