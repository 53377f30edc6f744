// Statements and scopes; expressions are in evaluate.cpp.
#include "runtime/text/jinja/interpreter.h"

#include "runtime/text/jinja/builtins.h"
#include "runtime/text/jinja/nesting.h"
#include "runtime/text/jinja/template_error.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace troupe::text::jinja {

Interpreter::Interpreter(const Limits& limits, std::time_t now) : limits_(limits), now_(now), scopes_(1) { define_functions(*this); }

void Interpreter::define(const std::string& name, Value value) { scopes_.front()[name] = std::move(value); }

Text Interpreter::run(const Body& body) { return capture(body); }

void Interpreter::step(std::size_t line) {
  if (++steps_ > limits_.steps) throw TemplateError(line, "the template takes more than " + std::to_string(limits_.steps) + " steps");
}
void Interpreter::charge(std::size_t bytes, std::size_t line) {
  work_bytes_ += bytes;
  if (work_bytes_ > limits_.work_bytes)
    throw TemplateError(line, "the template handles more than " + std::to_string(limits_.work_bytes) + " bytes");
}
Text Interpreter::text_of(const Value& value, std::size_t line) {
  charge(value.weight(), line);
  return value.to_text();
}
Value Interpreter::made(Text text, std::size_t line) {
  charge(text.size(), line);
  return Value(std::move(text));
}
Value Interpreter::made(List list, std::size_t line) {
  charge(list.size() * sizeof(Value), line);
  return Value(std::move(list));
}

void Interpreter::print(const Text& text, std::size_t line) {
  charge(text.size(), line);
  output_->append(text);
  if (output_->size() > limits_.output_bytes)
    throw TemplateError(line, "the template prints more than " + std::to_string(limits_.output_bytes) + " bytes");
}

/// What `body` prints, instead of printing it.
Text Interpreter::capture(const Body& body) {
  Text text;
  Text* const outer = std::exchange(output_, &text);
  execute(body);
  output_ = outer;  // an exception ends the rendering as a whole, so it need not be put back then
  return text;
}

Interpreter::Flow Interpreter::execute(const Body& body) {
  for (const Statement& statement : body)
    if (const Flow flow = execute(statement); flow != Flow::kNext) return flow;
  return Flow::kNext;
}

Interpreter::Flow Interpreter::execute(const Statement& statement) {
  const Nesting nesting(depth_, limits_.depth, statement.line);
  step(statement.line);
  switch (statement.kind) {
    case StatementKind::kText: print(*statement.value.text(), statement.line); break;
    case StatementKind::kOutput: print(text_of(evaluate(*statement.expression), statement.line), statement.line); break;
    case StatementKind::kIf: return execute_if(statement);
    case StatementKind::kFor: return execute_for(statement);
    case StatementKind::kSet: bind(statement.targets, evaluate(*statement.expression), statement.line); break;
    case StatementKind::kSetField: set_field(statement); break;
    case StatementKind::kSetBlock: bind(statement.targets, filtered(statement), statement.line); break;
    case StatementKind::kMacro: scopes_.back()[statement.targets[0]] = make_macro(statement); break;
    case StatementKind::kCall: print(text_of(execute_call(statement), statement.line), statement.line); break;
    case StatementKind::kWith: return execute_with(statement);
    case StatementKind::kFilter: print(text_of(filtered(statement), statement.line), statement.line); break;
    case StatementKind::kBreak: return Flow::kBreak;
    case StatementKind::kContinue: return Flow::kContinue;
  }
  return Flow::kNext;
}

Value Interpreter::filtered(const Statement& block) {
  scopes_.emplace_back();
  Value text = made(capture(block.body), block.line);
  scopes_.back().clear();
  scopes_.back()[kCapturedName] = text;
  if (block.expression != nullptr) text = evaluate(*block.expression);
  scopes_.pop_back();
  return text;
}

/// The values are computed outside of the new scope.
Interpreter::Flow Interpreter::execute_with(const Statement& statement) {
  Scope scope;
  for (const auto& [name, value] : statement.parameters) scope[name] = evaluate(*value);
  scopes_.push_back(std::move(scope));
  const Flow flow = execute(statement.body);
  scopes_.pop_back();
  return flow;
}

Interpreter::Flow Interpreter::execute_if(const Statement& statement) {
  return execute(evaluate(*statement.expression).truthy() ? statement.body : statement.otherwise);
}

namespace {
/// The variable `loop` of one pass.
Value loop_variable(const List& items, std::size_t index, const std::shared_ptr<std::optional<Value>>& seen) {
  const auto number = [](std::size_t n) { return Value(static_cast<std::int64_t>(n)); };
  const auto key = [](const char* name) { return Text(name, Origin::kTemplate); };
  Dict loop;
  loop.set(key("index"), number(index + 1));
  loop.set(key("index0"), number(index));
  loop.set(key("revindex"), number(items.size() - index));
  loop.set(key("revindex0"), number(items.size() - index - 1));
  loop.set(key("first"), Value(index == 0));
  loop.set(key("last"), Value(index + 1 == items.size()));
  loop.set(key("length"), number(items.size()));
  loop.set(key("previtem"), index > 0 ? items[index - 1] : Value());
  loop.set(key("nextitem"), index + 1 < items.size() ? items[index + 1] : Value());
  loop.set(key("depth"), number(1));  // of loops in loops of the recursive kind, which are refused
  loop.set(key("depth0"), number(0));
  loop.set(key("changed"), Value(Function([seen](Interpreter& interpreter, const Arguments& arguments) {
             const Value now(arguments.positional);
             const bool same = seen->has_value() && apply_binary(interpreter, "==", **seen, now, arguments.line).truthy();
             *seen = now;
             return Value(!same);
           })));
  loop.set(key("cycle"), Value(Function([index](Interpreter&, const Arguments& arguments) {
             if (arguments.positional.empty()) throw TemplateError(arguments.line, "loop.cycle needs a value");
             return arguments.positional[index % arguments.positional.size()];
           })));
  return Value(std::move(loop));
}
}  // namespace

Interpreter::Flow Interpreter::execute_for(const Statement& statement) {
  List items = elements(*this, evaluate(*statement.expression), statement.line);
  scopes_.emplace_back();  // what the loop sets ends with it, as in Jinja
  if (statement.filter != nullptr) {
    List kept;
    for (Value& item : items) {
      step(statement.line);
      bind(statement.targets, item, statement.line);
      if (evaluate(*statement.filter).truthy()) kept.push_back(std::move(item));
    }
    items = std::move(kept);
  }
  const auto seen = std::make_shared<std::optional<Value>>();  // by loop.changed
  for (std::size_t i = 0; i < items.size(); ++i) {
    step(statement.line);
    scopes_.back().clear();
    bind(statement.targets, items[i], statement.line);
    if (statement.wants.loop) scopes_.back()["loop"] = loop_variable(items, i, seen);
    if (execute(statement.body) == Flow::kBreak) break;
  }
  scopes_.pop_back();
  return items.empty() ? execute(statement.otherwise) : Flow::kNext;
}

void Interpreter::bind(const std::vector<std::string>& targets, const Value& value, std::size_t line) {
  if (targets.size() == 1) {
    scopes_.back()[targets[0]] = value;
    return;
  }
  const List parts = elements(*this, value, line);
  if (parts.size() != targets.size())
    throw TemplateError(line, std::to_string(parts.size()) + " values for " + std::to_string(targets.size()) + " names");
  for (std::size_t i = 0; i < targets.size(); ++i) scopes_.back()[targets[i]] = parts[i];
}

void Interpreter::set_field(const Statement& statement) {
  const Value target = look_up(statement.targets[0]);
  if (target.names() == nullptr)
    throw TemplateError(statement.line, "'" + statement.targets[0] + "' is no namespace, so its fields cannot be set");
  target.names()->attributes.set(Text(statement.targets[1], Origin::kTemplate), evaluate(*statement.expression));
}

/// A macro sees its arguments, the template's outermost variables as they are when it runs, and those around its definition as they
/// were then; never its caller's.
Value Interpreter::make_macro(const Statement& statement) {
  Scopes around(scopes_.begin() + 1, scopes_.end());
  for (const Scope& scope : around) charge(scope.size() * sizeof(Scope::value_type), statement.line);
  const auto shared = std::make_shared<const Scopes>(std::move(around));
  // The tree outlives the rendering, so the statement may be referred to.
  return Value(Function([&statement, shared](Interpreter& interpreter, const Arguments& arguments) {
    return interpreter.call_macro(statement, *shared, arguments);
  }));
}

Value Interpreter::call_macro(const Statement& macro, const Scopes& around, const Arguments& arguments) {
  const Nesting nesting(depth_, limits_.depth, arguments.line);
  for (const Scope& scope : around) charge(scope.size() * sizeof(Scope::value_type), arguments.line);
  Scopes outer(1);
  outer.swap(scopes_);
  scopes_.front().swap(outer.front());
  scopes_.insert(scopes_.end(), around.begin(), around.end());
  if (!around.empty()) scopes_.back()[macro.targets[0]] = make_macro(macro);  // it may call itself
  scopes_.emplace_back();
  bind_parameters(macro, arguments);
  Text text = capture(macro.body);
  outer.front().swap(scopes_.front());
  scopes_.swap(outer);
  return made(std::move(text), macro.line);
}

void Interpreter::bind_parameters(const Statement& macro, const Arguments& arguments) {
  const auto fail = [&](const std::string& what) { throw TemplateError(arguments.line, "macro '" + macro.targets[0] + "' " + what); };
  const std::size_t count = macro.parameters.size();
  if (arguments.positional.size() > count && !macro.wants.varargs) fail("takes " + std::to_string(count) + " arguments");
  Scope& scope = scopes_.back();
  Dict more;
  for (const auto& [name, value] : arguments.named) {
    const auto known =
        std::find_if(macro.parameters.begin(), macro.parameters.end(), [&wanted = name](const auto& one) { return one.first == wanted; });
    const bool is_known = known != macro.parameters.end();
    if (is_known && static_cast<std::size_t>(known - macro.parameters.begin()) < arguments.positional.size())
      fail("got two values for '" + name + "'");
    if (is_known || (name == "caller" && macro.wants.caller))
      scope[name] = value;
    else if (macro.wants.kwargs)
      more.set(Text(name, Origin::kTemplate), value);
    else
      fail("takes no argument '" + name + "'");
  }
  if (macro.wants.kwargs) scope["kwargs"] = Value(std::move(more));
  if (macro.wants.varargs) {
    const auto first = arguments.positional.begin() + static_cast<std::ptrdiff_t>(std::min(count, arguments.positional.size()));
    scope["varargs"] = Value::tuple(List(first, arguments.positional.end()));
  }
  if (macro.wants.caller) scope.try_emplace("caller", Value(Undefined{"caller"}));
  for (std::size_t i = 0; i < count; ++i) {
    const auto& [name, otherwise] = macro.parameters[i];
    if (i < arguments.positional.size())
      scope[name] = arguments.positional[i];
    else if (scope.find(name) == scope.end())
      scope[name] = otherwise != nullptr ? evaluate(*otherwise) : Value(Undefined{name});
  }
}

/// {% call %}: its body is a macro that the called one knows as `caller`.
Value Interpreter::execute_call(const Statement& statement) {
  const Expression& expression = *statement.expression;
  const Value function = evaluate(*expression.children[0]);
  Arguments arguments = evaluate_arguments(expression);
  arguments.named.emplace_back("caller", make_macro(statement));
  return call(function, arguments);
}

Value Interpreter::look_up(const std::string& name) const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
    if (const auto found = scope->find(name); found != scope->end()) return found->second;
  return Value(Undefined{name});
}

}  // namespace troupe::text::jinja
