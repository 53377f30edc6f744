// What goes wrong while a template is compiled or run. Thrown and caught inside the jinja folder and chat_template.cpp only: an
// interpreter returns from deep recursion, and its one boundary turns this into an Error value.
#pragma once
#include <stdexcept>
#include <string>

namespace troupe::text::jinja {

struct TemplateError : std::runtime_error {
  TemplateError(std::size_t at_line, const std::string& what, bool by_template = false)
      : std::runtime_error(what), line(at_line), raised(by_template) {}
  std::size_t line;  // 1-based, in the template
  bool raised;       // by the template's own raise_exception
};

}  // namespace troupe::text::jinja
