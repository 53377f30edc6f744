// See small_file.h.
#include "runtime/base/small_file.h"

#include "messages/error_reasons.h"

#include <fstream>

namespace troupe::base {

Result<std::string> read_small_file(const std::string& path, const std::string& option) {
  auto unreadable = [&](const std::string& what) {
    return make_error(ErrorClass::kInvalidRequest, ErrorReason::kFileUnreadable, "--" + option + " " + path + ": " + what, option);
  };
  std::ifstream file(path, std::ios::binary);
  std::string text(kSmallFileBytes + 1, '\0');
  if (!file.read(text.data(), 0)) return unreadable("cannot be read; check the path and its permissions");
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (file.bad()) return unreadable("cannot be read; check the path and its permissions");
  if (text.size() > kSmallFileBytes) return unreadable("has more than " + std::to_string(kSmallFileBytes) + " bytes");
  return text;
}

}  // namespace troupe::base
