// What a model file holds, as one number: part of every identity that a result or a cache depends on. A file of gigabytes is not read
// at each start for it: what is known about an unchanged file is taken from memory or from the cache folder.
#pragma once
#include "messages/ids.h"
#include "runtime/base/cache_folder.h"
#include "runtime/weights/disk_file.h"

#include <optional>

namespace troupe::weights {

struct KnownContent {
  FileIdentity file;
  Hash128 hash;
};

/// SHA-256 over the size and the SHA-256 of each 4 MiB, both cut to 128 bits; on all cores. An Error if the file cannot be read.
Result<Hash128> hash_content(const DiskFile& file);
/// `known`, if it is about this file as it is; else what the folder has noted; else hash_content, noted in the folder. An Error if the
/// file was written to since it was opened. One that was changed in the last two seconds is not noted: the clock of the file system
/// could miss another change.
Result<KnownContent> content_of(const DiskFile& file, const std::optional<KnownContent>& known, const base::CacheFolder& folder);

}  // namespace troupe::weights
