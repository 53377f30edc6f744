// API and admin keys from files: one a line, blank lines and lines that begin with # are skipped. Read at start and on SIGHUP. Keys
// leave this file as hashes only.
#pragma once
#include "cluster/options.h"
#include "gateway/access.h"
#include "messages/error.h"

#include <string>
#include <vector>

namespace troupe::cluster {

/// Hashes of the keys in `path`. Errors: unreadable file, no key in it, a key with blanks or control characters (names `option` and the
/// line, never the key).
Result<std::vector<Hash128>> read_key_file(const std::string& path, const std::string& option);
/// Of --api-key-file and --admin-key-file; empty where they are not given.
Result<gateway::KeySet> read_keys(const Options& options);

}  // namespace troupe::cluster
