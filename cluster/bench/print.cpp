// See print.h.
#include "cluster/bench/print.h"

#include <cstdarg>
#include <cstdio>

namespace troupe::cluster::bench {

std::string print(const char* format, ...) {
  char buffer[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(buffer, sizeof buffer, format, arguments);
  va_end(arguments);
  return buffer;
}

}  // namespace troupe::cluster::bench
