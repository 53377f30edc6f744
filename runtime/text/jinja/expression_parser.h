// ExpressionParser: Jinja's expression grammar by recursive descent, with its precedences:
// if-else < or < and < not < comparisons, in < + - < ~ < * / // % < ** < signs < postfix, filters, tests.
#pragma once
#include "runtime/text/jinja/syntax.h"
#include "runtime/text/jinja/token_stream.h"

namespace troupe::text::jinja {

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}
  /// A whole expression; with `tuple`, "a, b" is one too.
  ExpressionPointer parse(bool tuple = false);
  /// Without a trailing "if": what a for loop runs over.
  ExpressionPointer parse_iterable();
  /// "name | name(arguments)": filters of the variable kCapturedName.
  ExpressionPointer parse_filters();

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
  ExpressionPointer filter(ExpressionPointer inner);
  ExpressionPointer test(ExpressionPointer inner);
  void arguments(Expression& call);
  void test_argument(Expression& test);

  TokenStream& tokens_;
  std::size_t depth_ = 0, nodes_ = 0;
};

}  // namespace troupe::text::jinja
