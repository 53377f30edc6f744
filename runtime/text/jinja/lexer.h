// Lexer: a template's source into tokens. Whitespace control happens here, with the settings that chat templates are written for
// (transformers' trim_blocks and lstrip_blocks): after it, text tokens are literally what is printed.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::text::jinja {

enum class TokenKind {
  kText,            // between tags
  kOutputBegin,     // {{
  kOutputEnd,       // }}
  kStatementBegin,  // {%
  kStatementEnd,    // %}
  kName,
  kString,  // value: unescaped
  kInteger,
  kReal,
  kSymbol,  // operators and brackets
  kEnd,
};

struct Token {
  TokenKind kind;
  std::string value;
  std::size_t line;  // 1-based
};

/// Ends with a kEnd token. Throws TemplateError.
std::vector<Token> tokenize(std::string_view source);

}  // namespace troupe::text::jinja
