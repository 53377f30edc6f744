// ConfigReader: takes numbers of a model file's metadata, each with its key and range. The file is untrusted: the first bad
// key becomes the error, and reading goes on with a harmless value, so that callers ask once, at the end.
#pragma once
#include "messages/error.h"
#include "runtime/weights/gguf_file.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace troupe::model {

/// Like GgufFile::bad, for a sound file that this build cannot run.
Error unsupported(const weights::GgufFile& file, std::string_view field, std::string what);
/// A string of the file made safe for an error line: cut to 64 bytes, other than printable ASCII replaced by '?'.
std::string printable(std::string_view text);

class ConfigReader {
 public:
  /// Keys are "<prefix>.<name>".
  ConfigReader(const weights::GgufFile& file, std::string prefix) : file_(file), prefix_(std::move(prefix)) {}

  /// A required integer in [low, high], divisible by `multiple`.
  std::size_t integer(std::string_view name, std::size_t low, std::size_t high, std::size_t multiple = 1);
  /// The same, or `absent` where the file has no such key.
  std::size_t integer_or(std::string_view name, std::size_t absent, std::size_t low, std::size_t high, std::size_t multiple = 1);
  /// A number in [low, high], or `absent`.
  double real_or(std::string_view name, double absent, double low, double high);
  /// Notes an error about `name`, unless there is an earlier one.
  void fail(std::string_view name, std::string what);
  void fail_unsupported(std::string_view name, std::string what);

  std::string key(std::string_view name) const { return prefix_ + "." + std::string(name); }
  const std::optional<Error>& error() const { return error_; }

 private:
  const weights::GgufFile& file_;
  std::string prefix_;
  std::optional<Error> error_;
};

}  // namespace troupe::model
