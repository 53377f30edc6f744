// Values of TOML files as options take them. Pure functions; any thread.
#pragma once
#include "cluster/option_table.h"
#include "messages/error.h"

#include <string>
#include <toml++/toml.h>

namespace troupe::cluster {

/// The text a user would have written on the command line. An Error, about `place`, for tables, dates and other kinds that no option has.
Result<std::string> scalar_text(const toml::node& node, const std::string& place);
/// Sets an option from a value, or a list option from a list. Errors begin with `place`.
Status set_option(Options& options, const OptionRow& row, const toml::node& node, const std::string& place);

}  // namespace troupe::cluster
