// printf into a string, for reports and pictures. Pure; any thread.
#pragma once
#include <string>

namespace troupe::cluster::bench {

/// At most 511 characters; more is cut.
[[gnu::format(printf, 1, 2)]] std::string print(const char* format, ...);

}  // namespace troupe::cluster::bench
