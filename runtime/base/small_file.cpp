// See small_file.h.
#include "runtime/base/small_file.h"

#include "messages/error_reasons.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace troupe::base {

Result<std::string> read_small_file(const std::string& path, const std::string& option) {
  auto unreadable = [&](const std::string& what) {
    return make_error(ErrorClass::kInvalidRequest, ErrorReason::kFileUnreadable, "--" + option + " " + path + ": " + what, option);
  };
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe without a writer would hold the caller for ever
  if (file < 0) return unreadable("cannot be read; check the path and its permissions");
  struct stat facts {};
  const bool plain = fstat(file, &facts) == 0 && S_ISREG(facts.st_mode);
  std::string text(plain ? kSmallFileBytes + 1 : 0, '\0');
  std::size_t filled = 0;
  ssize_t count = 0;
  while (filled < text.size() && (count = read(file, text.data() + filled, text.size() - filled)) > 0)
    filled += static_cast<std::size_t>(count);
  close(file);
  if (!plain) return unreadable("is no plain file");
  if (count < 0) return unreadable("cannot be read; check the path and its permissions");
  text.resize(filled);
  if (text.size() > kSmallFileBytes) return unreadable("has more than " + std::to_string(kSmallFileBytes) + " bytes");
  return text;
}

}  // namespace troupe::base
