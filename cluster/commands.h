// The commands of the program: what the usage text and the shell completions name. Immutable.
#pragma once
#include "cluster/option_table.h"

#include <span>
#include <string_view>

namespace troupe::cluster {

struct CommandRow {
  std::string_view name;
  std::string_view arguments;
  std::string_view help;
  unsigned options = 0;                          // its bit in CommandBits; 0 = it takes none
  std::span<const std::string_view> words = {};  // what its argument may be
};
std::span<const CommandRow> command_table();

/// A bash script that completes commands, options, their values and file names.
std::string bash_completions();

}  // namespace troupe::cluster
