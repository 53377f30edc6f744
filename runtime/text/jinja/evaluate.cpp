// Expressions: the interpreter's other half.
#include "runtime/text/jinja/builtins.h"
#include "runtime/text/jinja/interpreter.h"
#include "runtime/text/jinja/nesting.h"
#include "runtime/text/jinja/template_error.h"

namespace troupe::text::jinja {

namespace {
/// What looking at all of an operand costs; containers are charged where they are walked.
std::size_t reading_cost(const Value& value) { return value.text() != nullptr ? value.text()->size() : 0; }
}  // namespace

Value Interpreter::evaluate(const Expression& expression) {
  const Nesting nesting(depth_, limits_.depth, expression.line);
  step(expression.line);
  Value value = evaluate_node(expression);
  if (value.depth() > limits_.value_depth) throw TemplateError(expression.line, "a value nests too deeply");
  return value;
}

Value Interpreter::evaluate_node(const Expression& expression) {
  const auto child = [&](std::size_t index) { return evaluate(*expression.children[index]); };
  switch (expression.kind) {
    case ExpressionKind::kLiteral: return expression.value;
    case ExpressionKind::kName: return look_up(expression.name);
    case ExpressionKind::kList: {
      List list;
      for (const auto& element : expression.children) list.push_back(evaluate(*element));
      return made(std::move(list), expression.line);
    }
    case ExpressionKind::kTuple: {
      List list;
      for (const auto& element : expression.children) list.push_back(evaluate(*element));
      charge(list.size() * sizeof(Value), expression.line);
      return Value::tuple(std::move(list));
    }
    case ExpressionKind::kCompare: return evaluate_compare(expression);
    case ExpressionKind::kDict: return evaluate_dict(expression);
    case ExpressionKind::kUnary: return evaluate_unary(expression);
    case ExpressionKind::kBinary: {
      const Value left = child(0), right = child(1);
      charge(reading_cost(left) + reading_cost(right), expression.line);
      return apply_binary(*this, expression.name, left, right, expression.line);
    }
    case ExpressionKind::kAnd: {
      Value left = child(0);
      return left.truthy() ? child(1) : left;
    }
    case ExpressionKind::kOr: {
      Value left = child(0);
      return left.truthy() ? left : child(1);
    }
    case ExpressionKind::kConditional:
      if (child(0).truthy()) return child(1);
      return expression.children[2] != nullptr ? child(2) : Value();
    case ExpressionKind::kAttribute: return evaluate_attribute(expression);
    case ExpressionKind::kSubscript: return evaluate_subscript(expression);
    case ExpressionKind::kSlice: return evaluate_slice(expression);
    case ExpressionKind::kCall: return evaluate_call(expression);
    case ExpressionKind::kFilter: {
      const Filter* filter = find_filter(expression.name);  // the parser has seen that it is there
      const Value input = child(0);
      charge(reading_cost(input), expression.line);
      return filter->apply(*this, input, evaluate_arguments(expression));
    }
    case ExpressionKind::kTest: {
      const Test* test = find_test(expression.name);
      const Value input = child(0);
      charge(reading_cost(input), expression.line);
      return Value(test->holds(*this, input, evaluate_arguments(expression)));
    }
  }
  throw TemplateError(expression.line, "an unknown kind of expression");
}

/// a < b < c: each pair, until one does not hold; every operand is evaluated once.
Value Interpreter::evaluate_compare(const Expression& expression) {
  Value left = evaluate(*expression.children[0]), result;
  for (const auto& [operation, operand] : expression.named) {
    Value right = evaluate(*operand);
    charge(reading_cost(left) + reading_cost(right), expression.line);
    result = apply_binary(*this, operation, left, right, expression.line);
    if (!result.truthy()) break;
    left = std::move(right);
  }
  return result;
}

Value Interpreter::evaluate_unary(const Expression& expression) {
  const Value operand = evaluate(*expression.children[0]);
  if (expression.name == "not") return Value(!operand.truthy());
  if (!operand.is_number()) throw TemplateError(expression.line, std::string("a sign before a value of type ") + operand.type_name());
  const bool minus = expression.name == "-";
  if (operand.real() != nullptr) return Value(minus ? -*operand.real() : *operand.real());
  return apply_binary(*this, minus ? "-" : "+", Value(std::int64_t{0}), operand, expression.line);
}

Value Interpreter::evaluate_dict(const Expression& expression) {
  Dict dict;
  for (std::size_t i = 0; i + 1 < expression.children.size(); i += 2) {
    const Value key = evaluate(*expression.children[i]);
    Text name = expect_text(key, "a key of a mapping", expression.line);
    dict.set(std::move(name), evaluate(*expression.children[i + 1]));
  }
  charge(expression.children.size() * sizeof(Value), expression.line);
  return Value(std::move(dict));
}

Arguments Interpreter::evaluate_arguments(const Expression& expression) {
  Arguments arguments;
  arguments.line = expression.line;
  for (std::size_t i = 1; i < expression.children.size(); ++i) arguments.positional.push_back(evaluate(*expression.children[i]));
  for (const auto& [name, value] : expression.named) arguments.named.emplace_back(name, evaluate(*value));
  return arguments;
}

Value Interpreter::evaluate_call(const Expression& expression) {
  const Value function = evaluate(*expression.children[0]);
  if (const Undefined* undefined = function.undefined())
    throw TemplateError(expression.line, "'" + undefined->name + "' is undefined and cannot be called");
  return call(function, evaluate_arguments(expression));
}

Value Interpreter::call(const Value& function, const Arguments& arguments) {
  if (function.function() == nullptr)
    throw TemplateError(arguments.line, std::string("a value of type ") + function.type_name() + " cannot be called");
  return (*function.function())(*this, arguments);
}

namespace {
/// A method as a value that remembers whose it is.
Value bound(const Method& method, const Value& self) {
  return Value(Function([&method, self](Interpreter& interpreter, const Arguments& arguments) {
    interpreter.charge(reading_cost(self), arguments.line);
    return method.call(interpreter, self, arguments);
  }));
}
}  // namespace

Value Interpreter::evaluate_attribute(const Expression& expression) {
  const Value value = evaluate(*expression.children[0]);
  if (const Method* method = find_method(value, expression.name)) return bound(*method, value);
  return attribute(value, expression.name, expression.line);
}

Value Interpreter::attribute(const Value& value, const std::string& name, std::size_t line) {
  if (const Undefined* undefined = value.undefined())
    throw TemplateError(line, "'" + undefined->name + "' is undefined, so it has no '" + name + "'");
  const Dict* dict = value.names() != nullptr ? &value.names()->attributes : value.dict();
  if (dict != nullptr)
    if (const Value* entry = dict->find(name)) return *entry;
  if (const Method* method = find_method(value, name)) return bound(*method, value);
  return Value(Undefined{name});
}

namespace {
/// Python's index rule: negative counts from the end. False = outside.
bool resolve_index(std::int64_t index, std::size_t size, std::size_t& out) {
  const auto length = static_cast<std::int64_t>(size);
  if (index < 0) index += length;
  if (index < 0 || index >= length) return false;
  out = static_cast<std::size_t>(index);
  return true;
}
}  // namespace

Value Interpreter::evaluate_subscript(const Expression& expression) {
  const Value container = evaluate(*expression.children[0]);
  const Value index = evaluate(*expression.children[1]);
  if (const Text* key = index.text()) return attribute(container, key->bytes(), expression.line);
  if (const Undefined* undefined = container.undefined())
    throw TemplateError(expression.line, "'" + undefined->name + "' is undefined, so it has no elements");
  std::size_t at = 0;
  if (const List* list = container.list()) {
    const bool inside = resolve_index(expect_integer(index, "an index", expression.line), list->size(), at);
    return inside ? (*list)[at] : Value(Undefined{"element"});
  }
  if (const Text* text = container.text()) {
    charge(text->size(), expression.line);
    const auto offsets = text->character_offsets();
    const bool inside = resolve_index(expect_integer(index, "an index", expression.line), offsets.size() - 1, at);
    return inside ? made(text->slice(offsets[at], offsets[at + 1] - offsets[at]), expression.line) : Value(Undefined{"character"});
  }
  return Value(Undefined{"element"});
}

namespace {
/// The indices that Python's slice(begin, end, step) takes of `size` elements.
std::vector<std::size_t> slice_indices(std::size_t size, const Value& begin, const Value& end, std::int64_t step, std::size_t line) {
  const auto length = static_cast<std::int64_t>(size);
  const auto bound_of = [&](const Value& value, std::int64_t otherwise) {
    if (value.undefined() != nullptr || value.is_none()) return otherwise;
    std::int64_t bound = expect_integer(value, "a bound of a slice", line);
    if (bound < 0) bound = std::max<std::int64_t>(bound + length, step > 0 ? 0 : -1);
    return std::min(bound, step > 0 ? length : length - 1);
  };
  const std::int64_t first = bound_of(begin, step > 0 ? 0 : length - 1), last = bound_of(end, step > 0 ? length : -1);
  std::vector<std::size_t> indices;
  for (std::int64_t i = first; step > 0 ? i < last : i > last; i += step) indices.push_back(static_cast<std::size_t>(i));
  return indices;
}
}  // namespace

Value Interpreter::evaluate_slice(const Expression& expression) {
  const std::size_t line = expression.line;
  const auto part = [&](std::size_t index) {
    return expression.children[index] == nullptr ? Value() : evaluate(*expression.children[index]);
  };
  const Value container = part(0), begin = part(1), end = part(2), step_value = part(3);
  const bool no_step = step_value.undefined() != nullptr || step_value.is_none();
  const std::int64_t by = no_step ? 1 : expect_integer(step_value, "the step of a slice", line);
  constexpr std::int64_t kMaxStep = 1 << 30;
  if (by == 0 || by > kMaxStep || by < -kMaxStep) throw TemplateError(line, "the step of a slice is out of range");
  if (const List* list = container.list()) {
    List out;
    for (const std::size_t i : slice_indices(list->size(), begin, end, by, line)) out.push_back((*list)[i]);
    charge(out.size() * sizeof(Value), line);
    return container.is_tuple() ? Value::tuple(std::move(out)) : Value(std::move(out));
  }
  if (const Text* text = container.text()) {
    const auto offsets = text->character_offsets();
    charge(text->size(), line);
    Text out;
    for (const std::size_t i : slice_indices(offsets.size() - 1, begin, end, by, line))
      out.append(text->slice(offsets[i], offsets[i + 1] - offsets[i]));
    return made(std::move(out), line);
  }
  return Value(Undefined{"slice"});  // Jinja's way with what has no elements
}

}  // namespace troupe::text::jinja
