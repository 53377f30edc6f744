#include "runtime/base/version.h"

namespace troupe::base {

std::string_view version() { return TROUPE_VERSION; }

}  // namespace troupe::base
