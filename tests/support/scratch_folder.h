// A folder of this process for files of a test; gone when the process ends well. Test programs run side by side, so no two share one.
#pragma once
#include <filesystem>

namespace troupe::test {

/// Made on the first call; the same one afterwards.
const std::filesystem::path& scratch_folder();

}  // namespace troupe::test
