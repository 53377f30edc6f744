// What this machine is, for the head of a report. Reads /proc and /sys; what they do not say stays empty. Any thread.
#pragma once
#include "cluster/bench/report.h"

#include <string>

namespace troupe::cluster::bench {

Machine this_machine();
/// Compiler and kind of build.
std::string this_build();
/// Now, as 2026-01-31T12:00:00Z.
std::string date_now();

}  // namespace troupe::cluster::bench
