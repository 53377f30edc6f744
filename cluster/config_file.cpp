// The config file: flat TOML whose keys are the names of the option table.
#include "cluster/option_hint.h"
#include "cluster/option_sources.h"
#include "cluster/toml_values.h"
#include "messages/error_reasons.h"

#include <fstream>
#include <toml++/toml.h>

namespace troupe::cluster {
namespace {

constexpr std::size_t kMaxFileBytes = 1 << 20;  // a device or a wrong file would be read for ever

Error bad_file(const std::string& place, const std::string& what) {
  return make_error(ErrorClass::kInvalidRequest, ErrorReason::kBadConfig, place + ": " + what);
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
    if (auto status = set_option(options, *row, node, place); !status) return status;
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
