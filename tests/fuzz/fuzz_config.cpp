// Any bytes as a config file: applied, or an error in one line.
#include "cluster/option_sources.h"
#include "tests/fuzz/fuzz_target.h"

#include <cstdlib>

FUZZ_TARGET(config) {
  troupe::cluster::Options options;
  const auto status = troupe::cluster::apply_config_text(options, std::string_view(reinterpret_cast<const char*>(data), size), "fuzz.toml");
  if (!status && (status.error().client_text.empty() || status.error().client_text.find('\n') != std::string::npos)) std::abort();
  for (const auto& row : troupe::cluster::option_table()) troupe::cluster::option_text(options, row);
  return 0;
}
