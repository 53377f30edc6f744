// What GET /config tells: every option of a running server, and where it came from. Pure.
#pragma once
#include "cluster/options.h"

#include <string>

namespace troupe::cluster {

/// JSON: {"options": {name: {"value", "source", "default"?}}}; source is "default", "file", "environment" or "command line"; values of
/// secrets are "(set)". Hidden options are left out.
std::string config_answer(const Options& options);

}  // namespace troupe::cluster
