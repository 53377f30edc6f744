// See key_file.h.
#include "cluster/key_file.h"
#include "messages/error_reasons.h"
#include "runtime/base/hash.h"
#include "runtime/base/small_file.h"

#include <algorithm>
#include <sstream>
#include <tuple>

namespace troupe::cluster {
namespace {

constexpr std::size_t kMaxKeyBytes = 512;

}  // namespace

Result<std::vector<Hash128>> read_key_file(const std::string& path, const std::string& option) {
  auto bad = [&](const std::string& what) {
    return make_error(ErrorClass::kInvalidRequest, ErrorReason::kFileUnreadable, "--" + option + " " + path + ": " + what, option);
  };
  auto text = base::read_small_file(path, option);
  if (!text.ok()) return text.error();
  std::istringstream file(*text);
  std::vector<Hash128> keys;
  std::string line;
  for (std::size_t number = 1; std::getline(file, line); ++number) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ' || line.back() == '\t')) line.pop_back();
    if (line.empty() || line.front() == '#') continue;
    const bool odd = std::any_of(line.begin(), line.end(), [](unsigned char c) { return c <= ' ' || c >= 127; });
    if (odd || line.size() > kMaxKeyBytes)
      return bad("line " + std::to_string(number) + ": a key is at most " + std::to_string(kMaxKeyBytes) +
                 " printable ASCII characters without blanks");
    keys.push_back(base::hash_text(line));
  }
  if (keys.empty()) return bad("holds no key; write one a line");
  return keys;
}

Result<gateway::KeySet> read_keys(const Options& options) {
  gateway::KeySet keys;
  for (auto [path, option, into] :
       {std::tuple{&options.api_key_file, "api-key-file", &keys.api}, std::tuple{&options.admin_key_file, "admin-key-file", &keys.admin}}) {
    if (path->empty()) continue;
    auto read = read_key_file(*path, option);
    if (!read.ok()) return read.error();
    *into = std::move(*read);
  }
  return keys;
}

}  // namespace troupe::cluster
