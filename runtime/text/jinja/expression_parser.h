// ExpressionParser: Jinja's expression grammar by recursive descent, with its precedences:
// if-else < or < and < not < comparisons, in < + - < ~ < * / // % < ** < signs < postfix, filters, tests.
#pragma once
#include "runtime/text/jinja/lexer.h"
#include "runtime/text/jinja/syntax.h"

#include <algorithm>

namespace troupe::text::jinja {

/// A position in the tokens, shared by the parsers.
class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}
  const Token& peek(std::size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  Token take() { return at_ + 1 < tokens_.size() ? std::move(tokens_[at_++]) : tokens_.back(); }
  bool is(TokenKind kind) const { return peek().kind == kind; }
  bool is_symbol(std::string_view symbol) const { return is(TokenKind::kSymbol) && peek().value == symbol; }
  bool is_name(std::string_view name) const { return is(TokenKind::kName) && peek().value == name; }
  bool accept_symbol(std::string_view symbol);
  bool accept_name(std::string_view name);
  void expect_symbol(std::string_view symbol);
  void expect(TokenKind kind, const char* what);
  std::string expect_name();  // an identifier
  std::size_t line() const { return peek().line; }
  [[noreturn]] void fail(const std::string& what) const;

 private:
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
};

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}
  /// A whole expression; with `tuple`, "a, b" is a list too.
  ExpressionPointer parse(bool tuple = false);
  /// Without a trailing "if": what a for loop runs over.
  ExpressionPointer parse_iterable();

 private:
  ExpressionPointer make(ExpressionKind kind, std::string name = {});
  ExpressionPointer binary(ExpressionKind kind, std::string name, ExpressionPointer left, ExpressionPointer right);
  ExpressionPointer conditional();
  ExpressionPointer disjunction();
  ExpressionPointer conjunction();
  ExpressionPointer negation();
  ExpressionPointer comparison();
  ExpressionPointer sum();
  ExpressionPointer concatenation();
  ExpressionPointer product();
  ExpressionPointer unary(bool filters);
  ExpressionPointer power();
  ExpressionPointer primary();
  ExpressionPointer bracketed();
  ExpressionPointer dictionary();
  ExpressionPointer name_or_constant();
  ExpressionPointer postfix(ExpressionPointer inner);
  ExpressionPointer subscript(ExpressionPointer container);
  ExpressionPointer filters_and_tests(ExpressionPointer inner);
  ExpressionPointer test(ExpressionPointer inner);
  void arguments(Expression& call);
  void test_argument(Expression& test);

  TokenStream& tokens_;
  std::size_t depth_ = 0, nodes_ = 0;
};

}  // namespace troupe::text::jinja
