// The syntax tree of a template. Built once by the parser, then only read.
#pragma once
#include "runtime/text/jinja/value.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace troupe::text::jinja {

enum class ExpressionKind {
  kLiteral,      // value
  kName,         // name
  kList,         // children
  kTuple,        // children
  kDict,         // children: key, value, key, value ...
  kUnary,        // name: "-" "+" "not"; 1 child
  kBinary,       // name: an operator; 2 children
  kCompare,      // children: the first operand; named: each next one under its operator
  kAnd,          // 2 children
  kOr,           // 2 children
  kConditional,  // children: condition, then, else (may be null)
  kAttribute,    // name; 1 child
  kSubscript,    // children: container, index
  kSlice,        // children: container, begin, end, step (the last three may be null)
  kCall,         // children: function, positional ...; named
  kFilter,       // name; children: input, positional ...; named
  kTest,         // name; children: input, positional ...; named
};

struct Expression;
using ExpressionPointer = std::unique_ptr<Expression>;

struct Expression {
  ExpressionKind kind;
  std::size_t line;
  std::string name;
  Value value;
  std::vector<ExpressionPointer> children;
  std::vector<std::pair<std::string, ExpressionPointer>> named;
};

enum class StatementKind {
  kText,      // value
  kOutput,    // expression
  kIf,        // expression, body, otherwise
  kFor,       // targets, expression, filter (may be null), body, otherwise
  kSet,       // targets, expression
  kSetField,  // targets[0] is the namespace, targets[1] the field; expression
  kSetBlock,  // targets[0], body, expression: filters of kCapturedName (may be null)
  kMacro,     // targets[0] is its name; parameters, body, wants
  kCall,      // expression: a call; parameters and body: the macro that it gets as `caller`
  kWith,      // parameters: variables of the body
  kFilter,    // expression: filters of kCapturedName; body
  kBreak,
  kContinue,
};

struct Statement;
using Body = std::vector<Statement>;

struct Statement {
  StatementKind kind;
  std::size_t line;
  Value value;
  std::vector<std::string> targets;
  ExpressionPointer expression, filter;
  std::vector<std::pair<std::string, ExpressionPointer>> parameters;  // defaults may be null
  struct {
    bool varargs = false, kwargs = false, caller = false, loop = false;
  } wants;  // what the text of a macro or loop asks for by these names: only that is made, and only that may be given
  Body body, otherwise;
};

/// The variable that holds a block's text while its filters run; no template can write this name.
inline constexpr const char* kCapturedName = " captured";

inline constexpr std::size_t kMaxNesting = 64;            // of statements; of brackets four times that
inline constexpr std::size_t kMaxExpressionNodes = 1000;  // in one expression
/// Throws TemplateError: a syntax error, or one of the limits above.
Body parse(std::string_view source);

}  // namespace troupe::text::jinja
