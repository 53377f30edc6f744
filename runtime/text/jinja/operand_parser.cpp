// Operands: literals, names, brackets, and what may follow them: attributes, subscripts, calls, filters, tests.
#include "runtime/text/jinja/builtins.h"
#include "runtime/text/jinja/expression_parser.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace troupe::text::jinja {

ExpressionPointer ExpressionParser::primary() {
  const TokenKind kind = tokens_.peek().kind;
  switch (kind) {
    case TokenKind::kName: return name_or_constant();
    case TokenKind::kString: {
      ExpressionPointer node = make(ExpressionKind::kLiteral);
      std::string bytes;
      while (tokens_.is(TokenKind::kString)) bytes += tokens_.take().value;  // neighbours are one string
      node->value = template_text(std::move(bytes));
      return node;
    }
    case TokenKind::kInteger:
    case TokenKind::kReal: {
      ExpressionPointer node = make(ExpressionKind::kLiteral);
      const std::string digits = tokens_.take().value;
      if (kind == TokenKind::kReal) {
        double value = 0;
        std::from_chars(digits.data(), digits.data() + digits.size(), value);
        node->value = Value(value);
      } else {
        std::int64_t value = 0;
        std::from_chars(digits.data(), digits.data() + digits.size(), value);
        node->value = Value(value);
      }
      return node;
    }
    default: break;
  }
  if (tokens_.is_symbol("(") || tokens_.is_symbol("[")) return bracketed();
  if (tokens_.is_symbol("{")) return dictionary();
  tokens_.fail("expected an expression");
}

ExpressionPointer ExpressionParser::name_or_constant() {
  ExpressionPointer node = make(ExpressionKind::kName, tokens_.peek().value);
  const std::string name = tokens_.take().value;
  const bool is_true = name == "true" || name == "True", is_false = name == "false" || name == "False";
  if (is_true || is_false || name == "none" || name == "None") {
    node->kind = ExpressionKind::kLiteral;
    node->value = is_true || is_false ? Value(is_true) : Value(None{});
  }
  return node;
}

/// ( ) and [ ]: a group, a tuple or a list.
ExpressionPointer ExpressionParser::bracketed() {
  const bool square = tokens_.is_symbol("[");
  const std::string close = square ? "]" : ")";
  ExpressionPointer list = make(square ? ExpressionKind::kList : ExpressionKind::kTuple);
  tokens_.take();
  bool comma = false;
  while (!tokens_.is_symbol(close)) {
    list->children.push_back(conditional());
    if (!tokens_.accept_symbol(",")) break;
    comma = true;
  }
  tokens_.expect_symbol(close);
  if (square || comma || list->children.empty()) return list;
  return std::move(list->children[0]);  // just a group
}

ExpressionPointer ExpressionParser::dictionary() {
  ExpressionPointer node = make(ExpressionKind::kDict);
  tokens_.expect_symbol("{");
  while (!tokens_.is_symbol("}")) {
    node->children.push_back(conditional());
    tokens_.expect_symbol(":");
    node->children.push_back(conditional());
    if (!tokens_.accept_symbol(",")) break;
  }
  tokens_.expect_symbol("}");
  return node;
}

ExpressionPointer ExpressionParser::postfix(ExpressionPointer inner) {
  for (;;) {
    if (tokens_.accept_symbol(".")) {
      ExpressionPointer node = make(ExpressionKind::kAttribute);
      node->name = tokens_.is(TokenKind::kInteger) ? tokens_.take().value : tokens_.expect_name();
      node->children.push_back(std::move(inner));
      inner = std::move(node);
    } else if (tokens_.accept_symbol("[")) {
      inner = subscript(std::move(inner));
    } else if (tokens_.is_symbol("(")) {
      ExpressionPointer node = make(ExpressionKind::kCall);
      node->children.push_back(std::move(inner));
      arguments(*node);
      inner = std::move(node);
    } else {
      return inner;
    }
  }
}

/// After "[": an index, or begin:end:step with any of them missing.
ExpressionPointer ExpressionParser::subscript(ExpressionPointer container) {
  ExpressionPointer node = make(ExpressionKind::kSubscript);
  node->children.push_back(std::move(container));
  const auto part = [this]() -> ExpressionPointer { return tokens_.is_symbol(":") || tokens_.is_symbol("]") ? nullptr : conditional(); };
  node->children.push_back(part());
  while (tokens_.accept_symbol(":")) {
    node->kind = ExpressionKind::kSlice;
    node->children.push_back(part());
  }
  if (node->kind == ExpressionKind::kSubscript && node->children[1] == nullptr) tokens_.fail("expected an index");
  if (node->children.size() > 4) tokens_.fail("a slice has at most three parts");
  if (node->kind == ExpressionKind::kSlice) node->children.resize(4);
  tokens_.expect_symbol("]");
  return node;
}

void ExpressionParser::arguments(Expression& call) {
  tokens_.expect_symbol("(");
  while (!tokens_.is_symbol(")")) {
    const bool named = tokens_.is(TokenKind::kName) && tokens_.peek(1).kind == TokenKind::kSymbol && tokens_.peek(1).value == "=";
    if (named) {
      std::string name = tokens_.expect_name();
      tokens_.expect_symbol("=");
      call.named.emplace_back(std::move(name), conditional());
    } else {
      if (!call.named.empty()) tokens_.fail("a positional argument after a named one");
      call.children.push_back(conditional());
    }
    if (!tokens_.accept_symbol(",")) break;
  }
  tokens_.expect_symbol(")");
}

ExpressionPointer ExpressionParser::filters_and_tests(ExpressionPointer inner) {
  for (;;) {
    if (tokens_.accept_symbol("|")) {
      inner = postfix(filter(std::move(inner)));
    } else if (tokens_.accept_name("is")) {
      inner = test(std::move(inner));
    } else {
      return inner;
    }
  }
}

/// A name that is not in the table is refused here, at the start of the server, not in the middle of some request.
ExpressionPointer ExpressionParser::filter(ExpressionPointer inner) {
  ExpressionPointer node = make(ExpressionKind::kFilter);
  const std::string name = tokens_.expect_name();
  if (find_filter(name) == nullptr) tokens_.fail("there is no filter '" + name + "'");
  node->name = name;
  node->children.push_back(std::move(inner));
  if (tokens_.is_symbol("(")) arguments(*node);
  return node;
}

ExpressionPointer ExpressionParser::test(ExpressionPointer inner) {
  const bool negated = tokens_.accept_name("not");
  ExpressionPointer node = make(ExpressionKind::kTest);
  const std::string name = tokens_.expect_name();
  if (find_test(name) == nullptr) tokens_.fail("there is no test '" + name + "'");
  node->name = name;
  node->children.push_back(std::move(inner));
  if (tokens_.is_symbol("("))
    arguments(*node);
  else
    test_argument(*node);
  if (!negated) return node;
  ExpressionPointer inverse = make(ExpressionKind::kUnary, "not");
  inverse->children.push_back(std::move(node));
  return inverse;
}

/// "is divisibleby 3": one argument without brackets.
void ExpressionParser::test_argument(Expression& test) {
  constexpr std::array<std::string_view, 6> kKeywords{"and", "or", "not", "if", "else", "is"};
  const Token& token = tokens_.peek();
  const bool keyword = token.kind == TokenKind::kName && (std::find(kKeywords.begin(), kKeywords.end(), token.value) != kKeywords.end());
  const bool begins = token.kind == TokenKind::kString || token.kind == TokenKind::kInteger || token.kind == TokenKind::kReal ||
                      (token.kind == TokenKind::kName && !keyword) || tokens_.is_symbol("[") || tokens_.is_symbol("{");
  if (begins) test.children.push_back(postfix(primary()));
}

}  // namespace troupe::text::jinja
