// Binary operators with Python's meaning, as Jinja has it.
#include "runtime/text/jinja/builtins.h"
#include "runtime/text/jinja/interpreter.h"
#include "runtime/text/jinja/template_error.h"

#include <algorithm>
#include <cmath>

namespace troupe::text::jinja {
namespace {

[[noreturn]] void no_such_operation(const std::string& operation, const Value& left, const Value& right, std::size_t line) {
  for (const Value* operand : {&left, &right})
    if (operand->undefined() != nullptr) throw TemplateError(line, "'" + operand->undefined()->name + "' is undefined");
  throw TemplateError(line, "no '" + operation + "' of " + left.type_name() + " and " + right.type_name());
}

Value concatenate(Interpreter& interpreter, const Value& left, const Value& right, std::size_t line) {
  Text text = interpreter.text_of(left, line);
  text.append(interpreter.text_of(right, line));
  return interpreter.made(std::move(text), line);
}

Value concatenate_lists(Interpreter& interpreter, const List& left, const List& right, std::size_t line) {
  interpreter.charge((left.size() + right.size()) * sizeof(Value), line);
  List list = left;
  list.insert(list.end(), right.begin(), right.end());
  return Value(std::move(list));
}

std::int64_t to_integer(const Value& number) {
  if (number.integer() != nullptr) return *number.integer();
  return *number.boolean() ? 1 : 0;
}

/// Division of integers rounds down, and the remainder has the divisor's sign.
std::int64_t floor_divide(std::int64_t a, std::int64_t b) { return a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0); }

std::int64_t integer_arithmetic(const std::string& operation, std::int64_t a, std::int64_t b, std::size_t line) {
  std::int64_t out = 0;
  bool overflow = false;
  if (operation == "+") overflow = __builtin_add_overflow(a, b, &out);
  if (operation == "-") overflow = __builtin_sub_overflow(a, b, &out);
  if (operation == "*") overflow = __builtin_mul_overflow(a, b, &out);
  if (operation == "//" || operation == "%") {
    if (b == 0) throw TemplateError(line, "division by zero");
    overflow = b == -1 && __builtin_sub_overflow(std::int64_t{0}, a, &out);
    if (b != -1) out = operation == "//" ? floor_divide(a, b) : a - floor_divide(a, b) * b;
    if (b == -1 && operation == "%") out = 0;
  }
  if (operation == "**") {
    out = 1;
    if (b > 64 && a != 0 && a != 1 && a != -1) overflow = true;
    for (std::int64_t i = 0; i < std::min<std::int64_t>(b, 64 + (b & 1)) && !overflow; ++i) overflow = __builtin_mul_overflow(out, a, &out);
  }
  if (overflow) throw TemplateError(line, "an integer is out of range");
  return out;
}

double real_arithmetic(const std::string& operation, double a, double b, std::size_t line) {
  if (operation == "+") return a + b;
  if (operation == "-") return a - b;
  if (operation == "*") return a * b;
  if (operation == "**") return std::pow(a, b);
  if (b == 0.0) throw TemplateError(line, "division by zero");
  if (operation == "/") return a / b;
  return operation == "//" ? std::floor(a / b) : a - std::floor(a / b) * b;
}

Value arithmetic(const std::string& operation, const Value& left, const Value& right, std::size_t line) {
  const bool real = left.real() != nullptr || right.real() != nullptr || operation == "/";
  const bool negative_power = !real && operation == "**" && to_integer(right) < 0;
  if (real || negative_power) return Value(real_arithmetic(operation, left.as_real(), right.as_real(), line));
  return Value(integer_arithmetic(operation, to_integer(left), to_integer(right), line));
}

/// a == b, charged for containers, which it walks together.
bool equal(Interpreter& interpreter, const Value& a, const Value& b, std::size_t line) {
  if (a.is_container() && b.is_container()) interpreter.charge(std::min(a.weight(), b.weight()), line);
  return a == b;
}

bool contains(Interpreter& interpreter, const Value& container, const Value& element, std::size_t line) {
  if (const List* list = container.list()) {
    interpreter.charge(list->size(), line);
    return std::any_of(list->begin(), list->end(), [&](const Value& one) { return equal(interpreter, one, element, line); });
  }
  if (const Dict* dict = container.dict()) return element.text() != nullptr && dict->find(element.text()->bytes()) != nullptr;
  if (const Text* text = container.text()) {
    if (element.text() == nullptr) throw TemplateError(line, std::string("'in' a string needs a string, not ") + element.type_name());
    return text->bytes().find(element.text()->bytes()) != std::string::npos;
  }
  if (container.undefined() != nullptr) return false;
  throw TemplateError(line, std::string("'in' needs a list, mapping or string, not ") + container.type_name());
}

Value compare(const std::string& operation, const Value& left, const Value& right, std::size_t line) {
  int order = 0;
  if (left.is_number() && right.is_number())
    order = left.as_real() < right.as_real() ? -1 : left.as_real() > right.as_real() ? 1 : 0;
  else if (left.text() != nullptr && right.text() != nullptr)
    order = left.text()->bytes().compare(right.text()->bytes());
  else
    no_such_operation(operation, left, right, line);
  if (operation == "<") return Value(order < 0);
  if (operation == "<=") return Value(order <= 0);
  if (operation == ">") return Value(order > 0);
  return Value(order >= 0);
}

Value repeat(Interpreter& interpreter, const Text& text, std::int64_t times, std::size_t line) {
  Text out;
  for (std::int64_t i = 0; i < times && !text.empty(); ++i) {
    interpreter.charge(text.size(), line);
    out.append(text);
  }
  return Value(std::move(out));
}

}  // namespace

Value apply_binary(Interpreter& interpreter, const std::string& operation, const Value& left, const Value& right, std::size_t line) {
  if (operation == "==") return Value(equal(interpreter, left, right, line));
  if (operation == "!=") return Value(!equal(interpreter, left, right, line));
  if (operation == "~") return concatenate(interpreter, left, right, line);
  if (operation == "in") return Value(contains(interpreter, right, left, line));
  if (operation[0] == '<' || operation[0] == '>') return compare(operation, left, right, line);
  if (left.is_number() && right.is_number()) return arithmetic(operation, left, right, line);
  if (operation == "+" && left.text() != nullptr && right.text() != nullptr) return concatenate(interpreter, left, right, line);
  if (operation == "+" && left.list() != nullptr && right.list() != nullptr)
    return concatenate_lists(interpreter, *left.list(), *right.list(), line);
  if (operation == "*" && left.text() != nullptr && right.integer() != nullptr)
    return repeat(interpreter, *left.text(), *right.integer(), line);
  no_such_operation(operation, left, right, line);
}

}  // namespace troupe::text::jinja
