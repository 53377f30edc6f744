// Small files that a user names (keys, certificates), read whole, with a bound: a device or a wrong file would be read for ever.
// Any thread; blocks on the disk.
#pragma once
#include "messages/error.h"

#include <cstddef>
#include <string>

namespace troupe::base {

constexpr std::size_t kSmallFileBytes = 1 << 20;
/// The content of `path`. kFileUnreadable, about `option` ("tls-cert"): not there, no permission, no plain file, over kSmallFileBytes.
Result<std::string> read_small_file(const std::string& path, const std::string& option);

}  // namespace troupe::base
