// Operators and their precedences; operands are in operand_parser.cpp.
#include "runtime/text/jinja/expression_parser.h"

#include <algorithm>
#include <array>

namespace troupe::text::jinja {
namespace {

/// Counts nesting; every way to nest goes through conditional() or unary().
class Depth {
 public:
  Depth(std::size_t& depth, const TokenStream& tokens) : depth_(depth) {
    if (++depth_ > 4 * kMaxNesting) tokens.fail("expressions are nested too deeply");
  }
  ~Depth() { --depth_; }

 private:
  std::size_t& depth_;
};

}  // namespace

/// Bounds the tree, which is walked (and destroyed) recursively: a chain like a.b.c.d nests in the tree, though not in the source.
ExpressionPointer ExpressionParser::make(ExpressionKind kind, std::string name) {
  if (++nodes_ > kMaxExpressionNodes) tokens_.fail("an expression is too long");
  return std::make_unique<Expression>(Expression{kind, tokens_.line(), std::move(name), {}, {}, {}});
}
ExpressionPointer ExpressionParser::binary(ExpressionKind kind, std::string name, ExpressionPointer left, ExpressionPointer right) {
  ExpressionPointer node = make(kind, std::move(name));
  node->line = left->line;
  node->children.push_back(std::move(left));
  node->children.push_back(std::move(right));
  return node;
}

ExpressionPointer ExpressionParser::parse(bool tuple) {
  nodes_ = 0;
  ExpressionPointer first = conditional();
  if (!tuple || !tokens_.is_symbol(",")) return first;
  ExpressionPointer list = make(ExpressionKind::kTuple);
  list->children.push_back(std::move(first));
  while (tokens_.accept_symbol(",")) {
    if (tokens_.is(TokenKind::kOutputEnd) || tokens_.is(TokenKind::kStatementEnd)) break;
    list->children.push_back(conditional());
  }
  return list;
}

ExpressionPointer ExpressionParser::parse_iterable() {
  nodes_ = 0;
  return disjunction();
}

ExpressionPointer ExpressionParser::parse_filters() {
  nodes_ = 0;
  ExpressionPointer chain = filter(make(ExpressionKind::kName, kCapturedName));
  while (tokens_.accept_symbol("|")) chain = filter(std::move(chain));
  return chain;
}

ExpressionPointer ExpressionParser::conditional() {
  const Depth depth(depth_, tokens_);
  ExpressionPointer value = disjunction();
  while (tokens_.accept_name("if")) {
    ExpressionPointer node = make(ExpressionKind::kConditional);
    node->children.push_back(disjunction());
    node->children.push_back(std::move(value));
    node->children.push_back(tokens_.accept_name("else") ? conditional() : nullptr);
    value = std::move(node);
  }
  return value;
}

ExpressionPointer ExpressionParser::disjunction() {
  ExpressionPointer left = conjunction();
  while (tokens_.accept_name("or")) {
    left = binary(ExpressionKind::kOr, {}, std::move(left), conjunction());
  }
  return left;
}

ExpressionPointer ExpressionParser::conjunction() {
  ExpressionPointer left = negation();
  while (tokens_.accept_name("and")) {
    left = binary(ExpressionKind::kAnd, {}, std::move(left), negation());
  }
  return left;
}

ExpressionPointer ExpressionParser::negation() {
  if (!tokens_.is_name("not")) return comparison();
  const Depth depth(depth_, tokens_);
  ExpressionPointer node = make(ExpressionKind::kUnary, "not");
  tokens_.take();
  node->children.push_back(negation());
  return node;
}

ExpressionPointer ExpressionParser::comparison() {
  constexpr std::array<std::string_view, 6> kOperators{"==", "!=", "<", "<=", ">", ">="};
  ExpressionPointer left = sum(), chain;
  for (;;) {
    const bool symbol =
        tokens_.is(TokenKind::kSymbol) && std::find(kOperators.begin(), kOperators.end(), tokens_.peek().value) != kOperators.end();
    const bool not_in = tokens_.is_name("not") && tokens_.peek(1).kind == TokenKind::kName && tokens_.peek(1).value == "in";
    if (!symbol && !not_in && !tokens_.is_name("in")) return chain != nullptr ? std::move(chain) : std::move(left);
    if (chain == nullptr) {
      chain = make(ExpressionKind::kCompare);
      chain->line = left->line;
      chain->children.push_back(std::move(left));
    }
    const std::string name = tokens_.take().value;
    if (not_in) tokens_.take();
    chain->named.emplace_back(not_in ? "not in" : name, sum());
  }
}

ExpressionPointer ExpressionParser::sum() {
  ExpressionPointer left = concatenation();
  while (tokens_.is_symbol("+") || tokens_.is_symbol("-")) {
    const std::string name = tokens_.take().value;
    left = binary(ExpressionKind::kBinary, name, std::move(left), concatenation());
  }
  return left;
}

ExpressionPointer ExpressionParser::concatenation() {
  ExpressionPointer left = product();
  while (tokens_.accept_symbol("~")) {
    left = binary(ExpressionKind::kBinary, "~", std::move(left), product());
  }
  return left;
}

ExpressionPointer ExpressionParser::product() {
  ExpressionPointer left = power();
  while (tokens_.is_symbol("*") || tokens_.is_symbol("/") || tokens_.is_symbol("//") || tokens_.is_symbol("%")) {
    const std::string name = tokens_.take().value;
    left = binary(ExpressionKind::kBinary, name, std::move(left), power());
  }
  return left;
}

/// A sign binds more tightly than ** (unlike in Python), and the operator groups to the left.
ExpressionPointer ExpressionParser::power() {
  ExpressionPointer left = unary(true);
  while (tokens_.accept_symbol("**")) left = binary(ExpressionKind::kBinary, "**", std::move(left), unary(true));
  return left;
}

ExpressionPointer ExpressionParser::unary(bool filters) {
  const Depth depth(depth_, tokens_);
  ExpressionPointer node;
  if (tokens_.is_symbol("-") || tokens_.is_symbol("+")) {
    node = make(ExpressionKind::kUnary, tokens_.peek().value);
    tokens_.take();
    node->children.push_back(unary(false));
  } else {
    node = postfix(primary());
  }
  return filters ? filters_and_tests(std::move(node)) : std::move(node);
}

}  // namespace troupe::text::jinja
