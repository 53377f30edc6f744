#include "cluster/printable.h"

#include "runtime/text/utf8.h"

namespace troupe::cluster {
namespace {

bool is_control(std::uint32_t code_point) { return code_point < 0x20 || (code_point >= 0x7f && code_point < 0xa0); }

}  // namespace

std::string printable(std::string_view source) {
  std::string out;
  while (!source.empty()) {
    const text::Utf8Step step = text::utf8_step(source);
    const std::string_view character = source.substr(0, step.length);
    if (step.kind != text::Utf8::kValid)
      out += text::kReplacement;
    else if (is_control(text::utf8_code_point(character)))
      out += '?';
    else
      out += character;
    source.remove_prefix(step.length);
  }
  return out;
}

}  // namespace troupe::cluster
