// The version of this program, as CMakeLists.txt has it: `troupe --version`, reports of measurements. Any thread.
#pragma once
#include <string_view>

namespace troupe::base {

/// "0.1.0"
std::string_view version();

}  // namespace troupe::base
