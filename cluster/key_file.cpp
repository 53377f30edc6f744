// See key_file.h.
#include "cluster/key_file.h"
#include "messages/error_reasons.h"

#include <algorithm>
#include <fstream>

namespace troupe::cluster {
namespace {

constexpr std::size_t kMaxKeyBytes = 512;

}  // namespace

Result<std::vector<std::string>> read_key_file(const std::string& path) {
  auto unreadable = [&](const std::string& what) {
    return make_error(ErrorClass::kInvalidRequest, ErrorReason::kFileUnreadable, "--api-key-file " + path + ": " + what, "api-key-file");
  };
  std::ifstream file(path);
  if (!file) return unreadable("cannot be read; check the path and its permissions");
  std::vector<std::string> keys;
  std::string line;
  for (std::size_t number = 1; std::getline(file, line); ++number) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ' || line.back() == '\t')) line.pop_back();
    if (line.empty() || line.front() == '#') continue;
    const bool odd = std::any_of(line.begin(), line.end(), [](unsigned char c) { return c <= ' ' || c >= 127; });
    if (odd || line.size() > kMaxKeyBytes)
      return unreadable("line " + std::to_string(number) + ": a key is at most " + std::to_string(kMaxKeyBytes) +
                        " printable ASCII characters without blanks");
    keys.push_back(line);
  }
  if (file.bad() || keys.empty()) return unreadable("holds no key; write one a line");
  return keys;
}

}  // namespace troupe::cluster
