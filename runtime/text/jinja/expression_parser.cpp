#include "runtime/text/jinja/expression_parser.h"

#include "runtime/text/jinja/template_error.h"

#include <array>
#include <charconv>

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

bool TokenStream::accept_symbol(std::string_view symbol) {
  if (!is_symbol(symbol)) return false;
  take();
  return true;
}
bool TokenStream::accept_name(std::string_view name) {
  if (!is_name(name)) return false;
  take();
  return true;
}
void TokenStream::expect_symbol(std::string_view symbol) {
  if (!accept_symbol(symbol)) fail("expected '" + std::string(symbol) + "'");
}
void TokenStream::expect(TokenKind kind, const char* what) {
  if (!is(kind)) fail(std::string("expected ") + what);
  take();
}
std::string TokenStream::expect_name() {
  if (!is(TokenKind::kName)) fail("expected a name");
  return take().value;
}
void TokenStream::fail(const std::string& what) const {
  const bool has_value = !peek().value.empty() && peek().kind != TokenKind::kText;
  throw TemplateError(line(), what + (has_value ? ", found '" + peek().value.substr(0, 40) + "'" : std::string()));
}

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
  ExpressionPointer list = make(ExpressionKind::kList);
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
  ExpressionPointer left = sum();
  bool compared = false;
  for (;;) {
    const bool symbol =
        tokens_.is(TokenKind::kSymbol) && std::find(kOperators.begin(), kOperators.end(), tokens_.peek().value) != kOperators.end();
    const bool not_in = tokens_.is_name("not") && tokens_.peek(1).kind == TokenKind::kName && tokens_.peek(1).value == "in";
    if (!symbol && !not_in && !tokens_.is_name("in")) return left;
    if (compared) tokens_.fail("chained comparisons are not supported; use 'and'");
    compared = true;
    const std::string name = tokens_.take().value;
    if (not_in) tokens_.take();
    ExpressionPointer node = binary(ExpressionKind::kBinary, not_in ? "in" : name, std::move(left), sum());
    if (not_in) {
      ExpressionPointer inverse = make(ExpressionKind::kUnary, "not");
      inverse->children.push_back(std::move(node));
      node = std::move(inverse);
    }
    left = std::move(node);
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
  ExpressionPointer list = make(ExpressionKind::kList);
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
      ExpressionPointer node = make(ExpressionKind::kFilter);
      node->name = tokens_.expect_name();
      node->children.push_back(std::move(inner));
      if (tokens_.is_symbol("(")) arguments(*node);
      inner = postfix(std::move(node));
    } else if (tokens_.accept_name("is")) {
      inner = test(std::move(inner));
    } else {
      return inner;
    }
  }
}

ExpressionPointer ExpressionParser::test(ExpressionPointer inner) {
  const bool negated = tokens_.accept_name("not");
  ExpressionPointer node = make(ExpressionKind::kTest);
  node->name = tokens_.is_symbol("==") ? tokens_.take().value : tokens_.expect_name();
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
  const bool keyword = token.kind == TokenKind::kName &&
                       (token.value == "in" || std::find(kKeywords.begin(), kKeywords.end(), token.value) != kKeywords.end());
  const bool begins = token.kind == TokenKind::kString || token.kind == TokenKind::kInteger || token.kind == TokenKind::kReal ||
                      (token.kind == TokenKind::kName && !keyword) || tokens_.is_symbol("[") || tokens_.is_symbol("{");
  if (begins) test.children.push_back(postfix(primary()));
}

}  // namespace troupe::text::jinja
