// Where options come from: command line over environment over config file over default. Runs once, on the main thread.
#pragma once
#include "cluster/option_table.h"
#include "messages/error.h"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::cluster {

/// Value of an environment variable, or nullptr. Tests give their own.
using Environment = std::function<const char*(const std::string&)>;
const char* process_environment(const std::string& name);

struct ParsedOptions {
  Options options;
  std::string help;  // not empty: the user asked for it; print it and end
};

/// `arguments`: what follows the command's name. All sources are applied and checked; the first fault is the Error, in one line.
Result<ParsedOptions> parse_options(CommandBits command, const std::vector<std::string>& arguments, const Environment& environment);

/// Applies a TOML file. Unknown keys and wrong types are Errors that name file, line and key.
Status apply_config_file(Options& options, const std::string& path);
/// The same for a text; `name` stands for the file in errors.
Status apply_config_text(Options& options, std::string_view text, const std::string& name);

}  // namespace troupe::cluster
