// TokenStream: a reading position in a template's tokens, shared by the parsers. Used by one thread, while compiling.
#pragma once
#include "runtime/text/jinja/lexer.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::text::jinja {

class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}
  const Token& peek(std::size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  Token take() { return at_ + 1 < tokens_.size() ? tokens_[at_++] : tokens_.back(); }
  bool is(TokenKind kind) const { return peek().kind == kind; }
  bool is_symbol(std::string_view symbol) const { return is(TokenKind::kSymbol) && peek().value == symbol; }
  bool is_name(std::string_view name) const { return is(TokenKind::kName) && peek().value == name; }
  bool accept_symbol(std::string_view symbol);
  bool accept_name(std::string_view name);
  void expect_symbol(std::string_view symbol);
  void expect(TokenKind kind, const char* what);
  std::string expect_name();  // an identifier
  std::size_t line() const { return peek().line; }
  std::size_t position() const { return at_; }
  /// Whether one of the tokens from `begin` up to the current one is this name.
  bool had_name(std::size_t begin, std::string_view name) const;
  [[noreturn]] void fail(const std::string& what) const;

 private:
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
};

}  // namespace troupe::text::jinja
