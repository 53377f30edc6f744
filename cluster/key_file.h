// API keys from a file: one a line, blank lines and lines that begin with # are skipped. Read once at start.
#pragma once
#include "messages/error.h"

#include <string>
#include <vector>

namespace troupe::cluster {

/// Errors: unreadable file, no key in it, a key with blanks or control characters (names the line, never the key).
Result<std::vector<std::string>> read_key_file(const std::string& path);

}  // namespace troupe::cluster
