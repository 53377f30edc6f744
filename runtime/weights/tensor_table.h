// The tensor table of a GGUF file: names, shapes, storage formats and places of the data, all checked against the file.
#pragma once
#include "runtime/weights/gguf_cursor.h"

#include <cstdint>

namespace troupe::weights {

/// Reads `count` descriptions at the cursor and resolves their data. Every tensor that comes out lies inside the file, is aligned
/// to `alignment` bytes, has 1...4 extents of at least 1, whole blocks in a row, and shares no byte with another.
/// False: the cursor holds the error.
bool read_tensor_table(GgufCursor& cursor, std::uint64_t count, std::uint64_t alignment, GgufContent& content);

}  // namespace troupe::weights
