// Tests: value is name(arguments).
#include "runtime/text/jinja/builtins.h"
#include "runtime/text/jinja/template_error.h"

#include <algorithm>
#include <array>

namespace troupe::text::jinja {
namespace {

const Value& argument(const Arguments& arguments) {
  if (arguments.positional.empty()) throw TemplateError(arguments.line, "this test needs an argument");
  return arguments.positional[0];
}
bool compares(Interpreter& interpreter, const char* operation, const Value& input, const Arguments& arguments) {
  return apply_binary(interpreter, operation, input, argument(arguments), arguments.line).truthy();
}
std::int64_t remainder(Interpreter& interpreter, const Value& input, std::int64_t divisor, std::size_t line) {
  expect_integer(input, "a tested number", line);
  return *apply_binary(interpreter, "%", input, Value(divisor), line).integer();
}

/// upper and lower: of what prints.
bool method(Interpreter& interpreter, const char* name, const Value& input, const Arguments& arguments) {
  const Value text(interpreter.text_of(input, arguments.line));
  return find_method(text, name)->call(interpreter, text, arguments).truthy();
}
/// The same object; of values that never change, one of the same type that is equal.
bool same(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const Value& other = argument(arguments);
  return std::string_view(input.type_name()) == other.type_name() && !input.is_container() && compares(interpreter, "==", input, arguments);
}

using In = Interpreter;
using Args = Arguments;
bool is_sequence(const Value& v) { return v.list() != nullptr || v.text() != nullptr || v.dict() != nullptr; }

constexpr std::array kTests{
    Test{"boolean", [](In&, const Value& v, const Args&) { return v.boolean() != nullptr; }},
    Test{"callable", [](In&, const Value& v, const Args&) { return v.function() != nullptr; }},
    Test{"defined", [](In&, const Value& v, const Args&) { return v.undefined() == nullptr; }},
    Test{"divisibleby",
         [](In& in, const Value& v, const Args& a) {
           return remainder(in, v, expect_integer(argument(a), "divisibleby's number", a.line), a.line) == 0;
         }},
    Test{"eq", [](In& in, const Value& v, const Args& a) { return compares(in, "==", v, a); }},
    Test{"equalto", [](In& in, const Value& v, const Args& a) { return compares(in, "==", v, a); }},
    Test{"even", [](In& in, const Value& v, const Args& a) { return remainder(in, v, 2, a.line) == 0; }},
    Test{"false", [](In&, const Value& v, const Args&) { return v.boolean() != nullptr && !*v.boolean(); }},
    Test{"float", [](In&, const Value& v, const Args&) { return v.real() != nullptr; }},
    Test{"filter", [](In&, const Value& v, const Args&) { return v.text() != nullptr && find_filter(v.text()->bytes()) != nullptr; }},
    Test{"ge", [](In& in, const Value& v, const Args& a) { return compares(in, ">=", v, a); }},
    Test{"gt", [](In& in, const Value& v, const Args& a) { return compares(in, ">", v, a); }},
    Test{"greaterthan", [](In& in, const Value& v, const Args& a) { return compares(in, ">", v, a); }},
    Test{"in", [](In& in, const Value& v, const Args& a) { return compares(in, "in", v, a); }},
    Test{"integer", [](In&, const Value& v, const Args&) { return v.integer() != nullptr; }},
    Test{"iterable", [](In&, const Value& v, const Args&) { return is_sequence(v) || v.undefined() != nullptr; }},
    Test{"le", [](In& in, const Value& v, const Args& a) { return compares(in, "<=", v, a); }},
    Test{"lessthan", [](In& in, const Value& v, const Args& a) { return compares(in, "<", v, a); }},
    Test{"lower", [](In& in, const Value& v, const Args& a) { return method(in, "islower", v, a); }},
    Test{"lt", [](In& in, const Value& v, const Args& a) { return compares(in, "<", v, a); }},
    Test{"mapping", [](In&, const Value& v, const Args&) { return v.dict() != nullptr; }},
    Test{"ne", [](In& in, const Value& v, const Args& a) { return compares(in, "!=", v, a); }},
    Test{"none", [](In&, const Value& v, const Args&) { return v.is_none(); }},
    Test{"number", [](In&, const Value& v, const Args&) { return v.is_number(); }},
    Test{"odd", [](In& in, const Value& v, const Args& a) { return remainder(in, v, 2, a.line) == 1; }},
    Test{"sameas", same},
    Test{"sequence", [](In&, const Value& v, const Args&) { return is_sequence(v); }},
    Test{"string", [](In&, const Value& v, const Args&) { return v.text() != nullptr; }},
    Test{"true", [](In&, const Value& v, const Args&) { return v.boolean() != nullptr && *v.boolean(); }},
    Test{"test", [](In&, const Value& v, const Args&) { return v.text() != nullptr && find_test(v.text()->bytes()) != nullptr; }},
    Test{"undefined", [](In&, const Value& v, const Args&) { return v.undefined() != nullptr; }},
    Test{"upper", [](In& in, const Value& v, const Args& a) { return method(in, "isupper", v, a); }},
    // Operators: for select("==", 1) and the like.
    Test{"!=", [](In& in, const Value& v, const Args& a) { return compares(in, "!=", v, a); }},
    Test{"<", [](In& in, const Value& v, const Args& a) { return compares(in, "<", v, a); }},
    Test{"<=", [](In& in, const Value& v, const Args& a) { return compares(in, "<=", v, a); }},
    Test{"==", [](In& in, const Value& v, const Args& a) { return compares(in, "==", v, a); }},
    Test{">", [](In& in, const Value& v, const Args& a) { return compares(in, ">", v, a); }},
    Test{">=", [](In& in, const Value& v, const Args& a) { return compares(in, ">=", v, a); }},
};

}  // namespace

const Test* find_test(std::string_view name) {
  const auto found = std::find_if(kTests.begin(), kTests.end(), [&](const Test& row) { return row.name == name; });
  return found == kTests.end() ? nullptr : &*found;
}

}  // namespace troupe::text::jinja
