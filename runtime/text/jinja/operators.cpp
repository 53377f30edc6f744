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

Value concatenate_lists(Interpreter& interpreter, const Value& left, const Value& right, std::size_t line) {
  interpreter.charge((left.list()->size() + right.list()->size()) * sizeof(Value), line);
  List list = *left.list();
  list.insert(list.end(), right.list()->begin(), right.list()->end());
  return left.is_tuple() ? Value::tuple(std::move(list)) : Value(std::move(list));
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

Value compare(Interpreter& interpreter, const std::string& operation, const Value& left, const Value& right, std::size_t line) {
  const int order = order_of(interpreter, left, right, line);
  if (operation == "<") return Value(order < 0);
  if (operation == "<=") return Value(order <= 0);
  if (operation == ">") return Value(order > 0);
  return Value(order >= 0);
}

Value repeat_list(Interpreter& interpreter, const Value& value, std::int64_t times, std::size_t line) {
  const List& list = *value.list();
  List out;
  for (std::int64_t i = 0; i < times && !list.empty(); ++i) {
    interpreter.charge(list.size() * sizeof(Value), line);
    out.insert(out.end(), list.begin(), list.end());
  }
  return value.is_tuple() ? Value::tuple(std::move(out)) : Value(std::move(out));
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

int order_of(Interpreter& interpreter, const Value& left, const Value& right, std::size_t line) {
  if (left.is_number() && right.is_number()) {
    if (left.integer() != nullptr && right.integer() != nullptr)
      return *left.integer() < *right.integer() ? -1 : *left.integer() > *right.integer() ? 1 : 0;
    return left.as_real() < right.as_real() ? -1 : left.as_real() > right.as_real() ? 1 : 0;
  }
  if (left.text() != nullptr && right.text() != nullptr) {
    interpreter.charge(std::min(left.text()->size(), right.text()->size()), line);
    return left.text()->bytes().compare(right.text()->bytes());
  }
  if (left.list() == nullptr || right.list() == nullptr || left.is_tuple() != right.is_tuple()) no_such_operation("<", left, right, line);
  const List &a = *left.list(), &b = *right.list();
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    interpreter.step(line);
    if (!equal(interpreter, a[i], b[i], line)) return order_of(interpreter, a[i], b[i], line);
  }
  return a.size() < b.size() ? -1 : a.size() > b.size() ? 1 : 0;
}

Value apply_binary(Interpreter& interpreter, const std::string& operation, const Value& left, const Value& right, std::size_t line) {
  if (operation == "==") return Value(equal(interpreter, left, right, line));
  if (operation == "!=") return Value(!equal(interpreter, left, right, line));
  if (operation == "~") return concatenate(interpreter, left, right, line);
  if (operation == "in") return Value(contains(interpreter, right, left, line));
  if (operation == "not in") return Value(!contains(interpreter, right, left, line));
  if (operation[0] == '<' || operation[0] == '>') return compare(interpreter, operation, left, right, line);
  if (operation == "%" && left.text() != nullptr) {
    const bool several = right.is_tuple();
    return format_percent(interpreter, *left.text(), {several ? *right.list() : List{right}, {}, line});
  }
  if (left.is_number() && right.is_number()) return arithmetic(operation, left, right, line);
  if (operation == "+" && left.text() != nullptr && right.text() != nullptr) return concatenate(interpreter, left, right, line);
  if (operation == "+" && left.list() != nullptr && right.list() != nullptr && left.is_tuple() == right.is_tuple())
    return concatenate_lists(interpreter, left, right, line);
  if (operation == "*" && (left.integer() != nullptr || right.integer() != nullptr)) {
    const Value& repeated = left.integer() != nullptr ? right : left;
    const std::int64_t times = left.integer() != nullptr ? *left.integer() : *right.integer();
    if (repeated.text() != nullptr) return repeat(interpreter, *repeated.text(), times, line);
    if (repeated.list() != nullptr) return repeat_list(interpreter, repeated, times, line);
  }
  no_such_operation(operation, left, right, line);
}

}  // namespace troupe::text::jinja
