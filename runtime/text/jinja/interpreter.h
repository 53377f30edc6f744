// Interpreter: runs a template's tree. One object a rendering, one thread.
// Invariant: work is bounded (steps, bytes made, recursion), whatever the template: it comes with a model file and is not trusted.
#pragma once
#include "runtime/text/jinja/syntax.h"

#include <ctime>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace troupe::text::jinja {

struct Limits {
  std::size_t steps = 2'000'000;         // nodes evaluated
  std::size_t work_bytes = 512U << 20;   // read and made on the way: texts, lists
  std::size_t output_bytes = 16U << 20;  // of what is printed
  std::size_t depth = 1200;              // nested evaluations, statements and macro calls
  std::uint32_t value_depth = 64;        // lists in lists
};

class Interpreter {
 public:
  /// `now`: seconds since 1970, what strftime_now tells.
  explicit Interpreter(const Limits& limits, std::time_t now = std::time(nullptr));
  /// A variable that the whole template sees.
  void define(const std::string& name, Value value);
  /// Throws TemplateError.
  Text run(const Body& body);

  Value evaluate(const Expression& expression);
  Value call(const Value& function, const Arguments& arguments);
  /// value[name], as filters look at it; undefined if there is no such thing.
  Value attribute(const Value& value, const std::string& name, std::size_t line);
  std::time_t now() const { return now_; }

  // Accounting: throw when a limit is passed.
  void step(std::size_t line);
  void charge(std::size_t bytes, std::size_t line);
  /// value.to_text(), charged before it is made.
  Text text_of(const Value& value, std::size_t line);
  Value made(Text text, std::size_t line);
  Value made(List list, std::size_t line);

 private:
  enum class Flow { kNext, kBreak, kContinue };
  using Scope = std::map<std::string, Value>;
  using Scopes = std::vector<Scope>;
  class Nesting;

  Flow execute(const Body& body);
  Flow execute(const Statement& statement);
  Flow execute_if(const Statement& statement);
  Flow execute_for(const Statement& statement);
  Flow execute_with(const Statement& statement);
  Value execute_call(const Statement& statement);
  Value make_macro(const Statement& statement);
  Value call_macro(const Statement& macro, const Scopes& around, const Arguments& arguments);
  void bind_parameters(const Statement& macro, const Arguments& arguments);
  void set_field(const Statement& statement);
  Text capture(const Body& body);
  /// capture() in a scope of its own, through the filters of `expression` unless it is null.
  Value filtered(const Statement& block);
  void bind(const std::vector<std::string>& targets, const Value& value, std::size_t line);
  void print(const Text& text, std::size_t line);

  Value evaluate_node(const Expression& expression);
  Value look_up(const std::string& name) const;
  Value evaluate_compare(const Expression& expression);
  Value evaluate_unary(const Expression& expression);
  /// value.name: a method goes before an entry, as in Jinja.
  Value evaluate_attribute(const Expression& expression);
  Value evaluate_subscript(const Expression& expression);
  Value evaluate_slice(const Expression& expression);
  Value evaluate_call(const Expression& expression);
  Value evaluate_dict(const Expression& expression);
  Arguments evaluate_arguments(const Expression& expression);

  Limits limits_;
  std::time_t now_;
  std::size_t steps_ = 0, work_bytes_ = 0, depth_ = 0;
  Scopes scopes_;  // the first is the template's, the last the innermost
  Text* output_ = nullptr;
};

/// Both operands of + - * / // % ** ~ == != < <= > >= in, not in.
Value apply_binary(Interpreter& interpreter, const std::string& operation, const Value& left, const Value& right, std::size_t line);

}  // namespace troupe::text::jinja
