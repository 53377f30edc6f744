// Statements and scopes; expressions are in evaluate.cpp.
#include "runtime/text/jinja/interpreter.h"

#include "runtime/text/jinja/builtins.h"
#include "runtime/text/jinja/nesting.h"
#include "runtime/text/jinja/template_error.h"

namespace troupe::text::jinja {

Interpreter::Interpreter(const Limits& limits) : limits_(limits), scopes_(1) { define_functions(*this); }

void Interpreter::define(const std::string& name, Value value) { scopes_.front()[name] = std::move(value); }

Text Interpreter::run(const Body& body) { return capture(body); }

void Interpreter::step(std::size_t line) {
  if (++steps_ > limits_.steps) throw TemplateError(line, "the template runs too long");
}
void Interpreter::charge(std::size_t bytes, std::size_t line) {
  work_bytes_ += bytes;
  if (work_bytes_ > limits_.work_bytes) throw TemplateError(line, "the template does too much work");
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
  if (output_->size() > limits_.output_bytes) throw TemplateError(line, "the template prints too much");
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
    case StatementKind::kSetBlock: bind(statement.targets, made(capture(statement.body), statement.line), statement.line); break;
    case StatementKind::kMacro: define_macro(statement); break;
    case StatementKind::kScope: return execute(statement.body);
    case StatementKind::kBreak: return Flow::kBreak;
    case StatementKind::kContinue: return Flow::kContinue;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::execute_if(const Statement& statement) {
  return execute(evaluate(*statement.expression).truthy() ? statement.body : statement.otherwise);
}

namespace {
/// The variable `loop` of one pass.
Value loop_variable(const List& items, std::size_t index) {
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
  for (std::size_t i = 0; i < items.size(); ++i) {
    scopes_.back().clear();
    bind(statement.targets, items[i], statement.line);
    scopes_.back()["loop"] = loop_variable(items, i);
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

void Interpreter::define_macro(const Statement& statement) {
  // The tree outlives the rendering, so the statement may be referred to.
  scopes_.back()[statement.targets[0]] = Value(Function(
      [&statement](Interpreter& interpreter, const Arguments& arguments) { return interpreter.call_macro(statement, arguments); }));
}

/// A macro sees its arguments and the template's outermost variables, not its caller's.
Value Interpreter::call_macro(const Statement& macro, const Arguments& arguments) {
  if (arguments.positional.size() > macro.parameters.size())
    throw TemplateError(arguments.line, "macro '" + macro.targets[0] + "' takes " + std::to_string(macro.parameters.size()) + " arguments");
  std::vector<Scope> outer;
  outer.swap(scopes_);
  scopes_.push_back(std::move(outer.front()));
  scopes_.emplace_back();
  for (std::size_t i = 0; i < macro.parameters.size(); ++i) {
    const auto& [name, otherwise] = macro.parameters[i];
    const Value* given = arguments.find(i, name);
    scopes_.back()[name] = given != nullptr ? *given : otherwise != nullptr ? evaluate(*otherwise) : Value(Undefined{name});
  }
  Text text = capture(macro.body);
  outer.front() = std::move(scopes_.front());
  scopes_.swap(outer);
  return made(std::move(text), macro.line);
}

Value Interpreter::look_up(const std::string& name) const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
    if (const auto found = scope->find(name); found != scope->end()) return found->second;
  return Value(Undefined{name});
}

}  // namespace troupe::text::jinja
