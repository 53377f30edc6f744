#include "runtime/text/jinja/token_stream.h"

#include "runtime/text/jinja/template_error.h"

namespace troupe::text::jinja {

bool TokenStream::accept_symbol(std::string_view symbol) {
  if (!is_symbol(symbol)) return false;
  take();
  return true;
}
bool TokenStream::accept_name(std::string_view name) {
  if (!is_name(name)) return false;
  take();
  return true;
}
bool TokenStream::had_name(std::size_t begin, std::string_view name) const {
  const auto first = tokens_.begin() + static_cast<std::ptrdiff_t>(begin), last = tokens_.begin() + static_cast<std::ptrdiff_t>(at_);
  return std::any_of(first, last, [&](const Token& token) { return token.kind == TokenKind::kName && token.value == name; });
}
void TokenStream::expect_symbol(std::string_view symbol) {
  if (!accept_symbol(symbol)) fail("expected '" + std::string(symbol) + "'");
}
void TokenStream::expect(TokenKind kind, const char* what) {
  if (!is(kind)) fail(std::string("expected ") + what);
  take();
}
std::string TokenStream::expect_name() {
  if (!is(TokenKind::kName)) fail("expected a name");
  return take().value;
}
void TokenStream::fail(const std::string& what) const {
  const bool has_value = !peek().value.empty() && peek().kind != TokenKind::kText;
  throw TemplateError(line(), what + (has_value ? ", found '" + peek().value.substr(0, 40) + "'" : std::string()));
}

}  // namespace troupe::text::jinja
