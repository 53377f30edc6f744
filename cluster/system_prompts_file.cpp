// See system_prompts_file.h.
#include "cluster/system_prompts_file.h"

#include "cluster/option_table.h"
#include "messages/error_reasons.h"
#include "runtime/base/small_file.h"
#include "runtime/text/utf8.h"

#include <filesystem>
#include <optional>
#include <set>
#include <toml++/toml.h>

namespace troupe::cluster {
namespace {

constexpr const char* kOption = "system-prompts";

Error bad(const std::string& place, std::string_view what) {
  return make_error(ErrorClass::kInvalidRequest, ErrorReason::kBadConfig, "--system-prompts " + place + ": " + std::string(what), kOption);
}

/// The text that is in a file of its own; of an unreadable one the error names that file.
Result<std::string> read_text(const std::filesystem::path& path) {
  auto text = base::read_small_file(path.string(), kOption);
  if (!text) return text;
  if (text->ends_with('\n')) text->pop_back();
  if (text->ends_with('\r')) text->pop_back();
  if (text::to_valid_utf8(*text) != *text) return bad(path.string(), "is not UTF-8");
  return text;
}

Result<gateway::SystemPrompt> read_prompt(const toml::table& table, const std::filesystem::path& folder, std::string place) {
  gateway::SystemPrompt prompt;
  const auto name = table["name"].value_exact<std::string>();
  if (!name || !gateway::good_system_prompt_name(*name)) return bad(place, "name " + std::string(gateway::kSystemPromptNameRule));
  prompt.name = *name;
  place += ": prompt " + *name;
  for (auto&& [key, node] : table)
    if (key != "name" && key != "text" && key != "file")
      return bad(place, "'" + quotable(std::string(key.str())) + "': no such field; there are name, text and file");
  if (table.contains("text") == table.contains("file")) return bad(place, "needs text or file, one of the two");
  const char* field = table.contains("text") ? "text" : "file";
  auto value = table[field].value_exact<std::string>();
  if (!value) return bad(place, std::string(field) + " must be a text");
  if (table.contains("file")) {
    auto read = read_text(folder / *value);
    if (!read) return bad(place, "file: " + read.error().client_text);
    value = std::move(*read);
  }
  if (!gateway::good_system_prompt_text(*value)) return bad(place, std::string(field) + " " + std::string(gateway::kSystemPromptTextRule));
  prompt.text = std::move(*value);
  return prompt;
}

}  // namespace

Result<gateway::SystemPrompts> read_system_prompts(const std::string& path) {
  gateway::SystemPrompts prompts;
  if (path.empty()) return prompts;
  auto text = base::read_small_file(path, kOption);
  if (!text) return text.error();
  toml::table file;
  try {
    file = toml::parse(*text, path);
  } catch (const toml::parse_error& fault) {
    return bad(path + ":" + std::to_string(fault.source().begin.line), quotable(fault.description()));
  }
  for (auto&& [key, node] : file)
    if (key != "prompt") return bad(path, "'" + quotable(std::string(key.str())) + "': no such key; each prompt begins with [[prompt]]");
  const toml::array* tables = file["prompt"].as_array();
  if (file.contains("prompt") && (tables == nullptr || !tables->is_array_of_tables()))
    return bad(path, "each prompt begins with [[prompt]]");
  if (tables == nullptr) return prompts;
  if (tables->size() > gateway::kMostSystemPrompts)
    return bad(path, "has " + std::to_string(tables->size()) + " prompts; at most " + std::to_string(gateway::kMostSystemPrompts));
  std::set<std::string> names;
  for (const auto& node : *tables) {
    const std::string place = path + ":" + std::to_string(node.source().begin.line);
    auto prompt = read_prompt(*node.as_table(), std::filesystem::path(path).parent_path(), place);
    if (!prompt) return prompt.error();
    if (!names.insert(prompt->name).second) return bad(place + ": prompt " + prompt->name, "name is taken by an earlier prompt");
    prompts.push_back(std::move(*prompt));
  }
  return prompts;
}

}  // namespace troupe::cluster
