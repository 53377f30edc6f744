// Nesting: counts the recursion of the interpreter, for as long as it lives.
#pragma once
#include "runtime/text/jinja/interpreter.h"
#include "runtime/text/jinja/template_error.h"

namespace troupe::text::jinja {

class Interpreter::Nesting {
 public:
  Nesting(std::size_t& depth, std::size_t limit, std::size_t line) : depth_(depth) {
    if (depth_ >= limit) throw TemplateError(line, "the template nests deeper than " + std::to_string(limit) + " evaluations");
    ++depth_;
  }
  ~Nesting() { --depth_; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;

 private:
  std::size_t& depth_;
};

}  // namespace troupe::text::jinja
