// Statements: text, {{ }} and {% %} into a tree.
#include "runtime/text/jinja/expression_parser.h"
#include "runtime/text/jinja/syntax.h"
#include "runtime/text/jinja/template_error.h"

#include <initializer_list>

namespace troupe::text::jinja {
namespace {

class StatementParser {
 public:
  explicit StatementParser(std::string_view source) : tokens_(tokenize(source)), expressions_(tokens_) {}

  Body parse_template() {
    Body body = parse_body({});
    if (!tokens_.is(TokenKind::kEnd)) tokens_.fail("a tag that closes nothing");
    return body;
  }

 private:
  /// Up to a statement whose first name is one of `ends` (that name is still to be taken), or to the end of the source.
  Body parse_body(std::initializer_list<std::string_view> ends) {
    if (++depth_ > kMaxNesting) tokens_.fail("statements are nested too deeply");
    Body body;
    while (!tokens_.is(TokenKind::kEnd)) {
      if (tokens_.is(TokenKind::kText)) {
        Statement text = make(StatementKind::kText);
        text.value = template_text(tokens_.take().value);
        body.push_back(std::move(text));
      } else if (tokens_.is(TokenKind::kOutputBegin)) {
        body.push_back(parse_output());
      } else {
        tokens_.expect(TokenKind::kStatementBegin, "a tag");
        if (at_end(ends)) break;
        body.push_back(parse_statement());
      }
    }
    if (tokens_.is(TokenKind::kEnd) && ends.size() > 0) tokens_.fail("'" + std::string(*(ends.end() - 1)) + "' is missing");
    --depth_;
    return body;
  }

  bool at_end(std::initializer_list<std::string_view> ends) const {
    for (const std::string_view end : ends)
      if (tokens_.is_name(end)) return true;
    return false;
  }

  Statement make(StatementKind kind) const {
    Statement statement{};
    statement.kind = kind;
    statement.line = tokens_.line();
    return statement;
  }
  void end_tag() { tokens_.expect(TokenKind::kStatementEnd, "'%}'"); }
  void take_end(std::string_view name) {
    if (!tokens_.accept_name(name)) tokens_.fail("expected '" + std::string(name) + "'");
    end_tag();
  }

  Statement parse_output() {
    Statement output = make(StatementKind::kOutput);
    tokens_.take();
    output.expression = expressions_.parse(true);
    tokens_.expect(TokenKind::kOutputEnd, "'}}'");
    return output;
  }

  Statement parse_statement() {
    if (tokens_.accept_name("if")) return parse_if();
    if (tokens_.accept_name("for")) return parse_for();
    if (tokens_.accept_name("set")) return parse_set();
    if (tokens_.accept_name("macro")) return parse_macro();
    if (tokens_.accept_name("call")) return parse_call();
    if (tokens_.accept_name("with")) return parse_with();
    if (tokens_.accept_name("filter")) return parse_filter();
    if (tokens_.accept_name("generation")) return parse_generation();
    for (const auto& [name, kind] : {std::pair("break", StatementKind::kBreak), std::pair("continue", StatementKind::kContinue)}) {
      if (!tokens_.accept_name(name)) continue;
      if (loops_ == 0) tokens_.fail(std::string(name) + " outside a loop");
      Statement statement = make(kind);
      end_tag();
      return statement;
    }
    tokens_.fail("this statement is not supported");
  }

  /// After "if" or "elif".
  Statement parse_if() {
    Statement statement = make(StatementKind::kIf);
    statement.expression = expressions_.parse();
    end_tag();
    statement.body = parse_body({"elif", "else", "endif"});
    if (tokens_.accept_name("elif")) {
      if (++depth_ > kMaxNesting) tokens_.fail("too many elif branches");  // each nests in the one before
      statement.otherwise.push_back(parse_if());
      --depth_;
      return statement;
    }
    if (tokens_.accept_name("else")) {
      end_tag();
      statement.otherwise = parse_body({"endif"});
    }
    take_end("endif");
    return statement;
  }

  Statement parse_for() {
    Statement statement = make(StatementKind::kFor);
    parse_targets(statement);
    if (!tokens_.accept_name("in")) tokens_.fail("expected 'in'");
    statement.expression = expressions_.parse_iterable();
    if (tokens_.accept_name("if")) statement.filter = expressions_.parse();
    if (tokens_.is_name("recursive")) tokens_.fail("recursive loops are not supported");
    end_tag();
    const std::size_t begin = tokens_.position();
    ++loops_;
    statement.body = parse_body({"else", "endfor"});
    --loops_;
    statement.wants.loop = tokens_.had_name(begin, "loop");
    if (tokens_.accept_name("else")) {
      end_tag();
      statement.otherwise = parse_body({"endfor"});
    }
    take_end("endfor");
    return statement;
  }

  /// a, or a, b, or (a, b)
  void parse_targets(Statement& statement) {
    const bool brackets = tokens_.accept_symbol("(");
    do {
      if (brackets && tokens_.is_symbol(")")) break;  // (a, b,)
      statement.targets.push_back(tokens_.expect_name());
    } while (tokens_.accept_symbol(","));
    if (brackets) tokens_.expect_symbol(")");
  }

  Statement parse_set() {
    Statement statement = make(StatementKind::kSet);
    parse_targets(statement);
    if (statement.targets.size() == 1 && tokens_.accept_symbol(".")) {
      statement.kind = StatementKind::kSetField;
      statement.targets.push_back(tokens_.expect_name());
    }
    if (tokens_.accept_symbol("=")) {
      statement.expression = expressions_.parse(true);
      end_tag();
      return statement;
    }
    if (statement.kind != StatementKind::kSet || statement.targets.size() != 1) tokens_.fail("expected '='");
    statement.kind = StatementKind::kSetBlock;
    if (tokens_.accept_symbol("|")) statement.expression = expressions_.parse_filters();
    end_tag();
    statement.body = parse_body({"endset"});
    take_end("endset");
    return statement;
  }

  Statement parse_macro() {
    Statement statement = make(StatementKind::kMacro);
    statement.targets.push_back(tokens_.expect_name());
    parse_parameters(statement);
    end_tag();
    parse_macro_body(statement, "endmacro");
    return statement;
  }

  void parse_parameters(Statement& statement) {
    tokens_.expect_symbol("(");
    while (!tokens_.is_symbol(")")) {
      std::string name = tokens_.expect_name();
      ExpressionPointer otherwise = tokens_.accept_symbol("=") ? expressions_.parse() : nullptr;
      if (otherwise == nullptr && !statement.parameters.empty() && statement.parameters.back().second != nullptr)
        tokens_.fail("a parameter without a default follows one that has one");
      statement.parameters.emplace_back(std::move(name), std::move(otherwise));
      if (!tokens_.accept_symbol(",")) break;
    }
    tokens_.expect_symbol(")");
  }

  void parse_macro_body(Statement& statement, std::string_view end) {
    const std::size_t begin = tokens_.position();
    const std::size_t loops = std::exchange(loops_, 0);  // a macro's body is in no loop of its caller
    statement.body = parse_body({end});
    loops_ = loops;
    statement.wants.varargs = tokens_.had_name(begin, "varargs");
    statement.wants.kwargs = tokens_.had_name(begin, "kwargs");
    statement.wants.caller = tokens_.had_name(begin, "caller");
    take_end(end);
  }

  /// {% call(parameters) macro(arguments) %}
  Statement parse_call() {
    Statement statement = make(StatementKind::kCall);
    statement.targets.emplace_back("caller");
    if (tokens_.is_symbol("(")) parse_parameters(statement);
    statement.expression = expressions_.parse();
    if (statement.expression->kind != ExpressionKind::kCall) tokens_.fail("expected a call");
    end_tag();
    parse_macro_body(statement, "endcall");
    return statement;
  }

  Statement parse_with() {
    Statement statement = make(StatementKind::kWith);
    while (!tokens_.is(TokenKind::kStatementEnd)) {
      std::string name = tokens_.expect_name();
      tokens_.expect_symbol("=");
      statement.parameters.emplace_back(std::move(name), expressions_.parse());
      if (!tokens_.accept_symbol(",")) break;
    }
    end_tag();
    statement.body = parse_body({"endwith"});
    take_end("endwith");
    return statement;
  }

  Statement parse_filter() {
    Statement statement = make(StatementKind::kFilter);
    statement.expression = expressions_.parse_filters();
    end_tag();
    statement.body = parse_body({"endfilter"});
    take_end("endfilter");
    return statement;
  }

  /// {% generation %} marks, for training, what the assistant said; it prints its body.
  Statement parse_generation() {
    Statement statement = make(StatementKind::kWith);
    end_tag();
    statement.body = parse_body({"endgeneration"});
    take_end("endgeneration");
    return statement;
  }

  TokenStream tokens_;
  ExpressionParser expressions_;
  std::size_t depth_ = 0, loops_ = 0;
};

}  // namespace

Body parse(std::string_view source) { return StatementParser(source).parse_template(); }

}  // namespace troupe::text::jinja
