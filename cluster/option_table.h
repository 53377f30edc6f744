// The option table: one row an option. It gives the command line, the environment names, the keys of the config file, --help and
// docs/options.md, so a new option is a field in options.h and a row here. Immutable; any thread.
#pragma once
#include "cluster/options.h"
#include "messages/error.h"

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace troupe::cluster {

/// Commands that take an option, as bits.
enum CommandBits : unsigned {
  kServe = 1,
  kChat = 2,
  kBench = 4,
  kRun = 8,
  kInspect = 16,
  kLaunch = 32,
  kAll = 15
};  // kAll: that load MODEL
std::string_view command_name(CommandBits command);

using OptionField =
    std::variant<std::string Options::*, std::uint64_t Options::*, double Options::*, bool Options::*, std::vector<std::string> Options::*>;

struct OptionRow {
  std::string_view name;  // as on the command line (after --) and in the file
  std::string_view unit;  // "text", "number", "bytes", "path" ...: shown in the help; "bytes" accepts KiB, MiB, GiB
  OptionField field = {};
  double minimum = 0, maximum = 0;             // of numbers; equal: any
  std::vector<std::string_view> choices = {};  // of texts and lists; empty: any
  std::string_view help;
  unsigned commands = kServe | kChat | kRun;
  bool positional = false;
  bool hidden = false;               // for tests: not in the help or the docs
  bool no_file = false;              // not a key of the config file
  bool secret = false;               // shown as "(set)" only
  std::string_view short_name = {};  // second name on the command line
  std::string_view bare_value = {};  // of a text whose name may be given alone
};

std::span<const OptionRow> option_table();
/// `troupe launch` takes what `troupe serve` takes, but for its file and model.
bool takes(CommandBits command, const OptionRow& row);
/// Sets an option as `from` has it.
void copy_option(Options& to, const Options& from, const OptionRow& row);
const OptionRow* find_option(std::string_view name);
/// As on the command line: "--kv-memory", "MODEL".
std::string shown_name(const OptionRow& row);
/// "kv-memory" -> "TROUPE_KV_MEMORY".
std::string environment_name(const OptionRow& row);

/// Parses `text` and stores it. Error{bad_config} names `origin` ("--port", "TROUPE_PORT", "a.toml:3: port"), the value and what is
/// allowed.
Status set_option(Options& options, const OptionRow& row, std::string_view text, std::string_view origin);
/// Lists: appends, and takes several numbers or choices at once ("1,16"); a list given on the command line replaces that of the file.
void clear_option(Options& options, const OptionRow& row);
/// Text of a user in an error: one line, at most 200 bytes of it.
std::string quotable(std::string_view text);
/// Current value as a user would write it; empty for an empty text.
std::string option_text(const Options& options, const OptionRow& row);
/// "1 to 65535", "int8, fp16 or fp32"; empty if anything goes.
std::string allowed_text(const OptionRow& row);
/// docs/options.md.
std::string options_markdown();

}  // namespace troupe::cluster
