// The config file: flat TOML whose keys are the names of the option table.
#include "cluster/option_hint.h"
#include "cluster/option_sources.h"
#include "messages/error_reasons.h"

#include <fstream>
#include <sstream>
#include <toml++/toml.h>

namespace troupe::cluster {
namespace {

constexpr std::size_t kMaxFileBytes = 1 << 20;  // a device or a wrong file would be read for ever

Error bad_file(const std::string& place, const std::string& what) {
  return make_error(ErrorClass::kInvalidRequest, ErrorReason::kBadConfig, place + ": " + what);
}

/// The text a user would have written on the command line; an Error for tables, dates and other kinds that no option has.
Result<std::string> scalar_text(const toml::node& node, const std::string& place) {
  if (auto text = node.value_exact<std::string>()) return *text;
  if (auto number = node.value_exact<std::int64_t>()) return std::to_string(*number);
  if (auto flag = node.value_exact<bool>()) return std::string(*flag ? "true" : "false");
  if (auto real = node.value_exact<double>()) {
    std::ostringstream text;
    text << *real;
    return text.str();
  }
  return bad_file(place, "must be a text, a number, true or false");
}

}  // namespace

Status apply_config_text(Options& options, std::string_view text, const std::string& name) {
  toml::table table;
  try {
    table = toml::parse(text, name);
  } catch (const toml::parse_error& fault) {
    return bad_file(name + ":" + std::to_string(fault.source().begin.line), quotable(fault.description()));
  }
  for (auto&& [key, node] : table) {
    const std::string key_text(key.str());
    const std::string place = name + ":" + std::to_string(key.source().begin.line) + ": " + quotable(key_text);
    const OptionRow* row = find_option(key_text);
    if (row == nullptr || row->no_file)
      return bad_file(place, "no such key" + option_hint(key_text, kAll, "") +
                                 " (the keys are the options of 'troupe serve --help' without the dashes before them)");
    clear_option(options, *row);
    options.sources[std::string(row->name)] = OptionSource::kFile;
    const toml::array* items = node.as_array();
    if (items != nullptr && !std::holds_alternative<std::vector<std::string> Options::*>(row->field))
      return bad_file(place, "takes one value, not a list");
    if (items == nullptr) {
      auto value = scalar_text(node, place);
      if (!value) return value.error();
      if (auto status = set_option(options, *row, *value, place); !status) return status;
      continue;
    }
    for (const toml::node& item : *items) {
      auto value = scalar_text(item, place);
      if (!value) return value.error();
      if (auto status = set_option(options, *row, *value, place); !status) return status;
    }
  }
  return ok_status();
}

Status apply_config_file(Options& options, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kMaxFileBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kMaxFileBytes) return bad_file("config file " + path, "has more than " + std::to_string(kMaxFileBytes) + " bytes");
  if (text.empty() && !file.eof())
    return make_error(ErrorClass::kNotFound, ErrorReason::kFileUnreadable, "config file " + path + " cannot be read (is the path right?)");
  return apply_config_text(options, text, path);
}

}  // namespace troupe::cluster
