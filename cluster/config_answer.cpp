// See config_answer.h.
#include "cluster/config_answer.h"

#include "cluster/option_table.h"

#include <nlohmann/json.hpp>

namespace troupe::cluster {
namespace {

using Json = nlohmann::ordered_json;

Json value_of(const Options& options, const OptionRow& row) {
  if (row.secret) return option_text(options, row).empty() ? Json("") : Json("(set)");
  return std::visit([&](auto field) { return Json(options.*field); }, row.field);
}

const char* source_of(const Options& options, const OptionRow& row) {
  const auto found = options.sources.find(row.name);
  if (found == options.sources.end()) return "default";
  switch (found->second) {
    case OptionSource::kFile: return "file";
    case OptionSource::kEnvironment: return "environment";
    case OptionSource::kCommandLine: break;
  }
  return "command line";
}

}  // namespace

std::string config_answer(const Options& options) {
  Json rows = Json::object();
  const Options defaults;
  for (const OptionRow& row : option_table()) {
    if (row.hidden || (row.commands & kServe) == 0) continue;
    Json entry = {{"value", value_of(options, row)}, {"source", source_of(options, row)}};
    if (!row.secret && entry["value"] != value_of(defaults, row)) entry["default"] = value_of(defaults, row);
    rows[std::string(row.name)] = std::move(entry);
  }
  return Json{{"object", "config"}, {"options", std::move(rows)}}.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace troupe::cluster
