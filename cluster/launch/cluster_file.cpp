// Reading and checking value by value. See cluster_file.h.
#include "cluster/launch/cluster_file.h"

#include "cluster/launch/cluster_key_table.h"
#include "cluster/option_hint.h"
#include "cluster/toml_values.h"
#include "runtime/base/hash.h"
#include "runtime/base/small_file.h"

#include <algorithm>
#include <arpa/inet.h>
#include <filesystem>
#include <optional>
#include <toml++/toml.h>

namespace troupe::cluster::launch {
namespace {

constexpr std::size_t kLongestName = 64;
constexpr std::size_t kMostNodes = 1024;
constexpr const char* kOption = "cluster file";  // as errors name it

bool is_name(std::string_view text) {
  const auto fits = [](unsigned char c) { return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-'; };
  return !text.empty() && text.size() <= kLongestName && text.front() != '.' && std::all_of(text.begin(), text.end(), fits);
}

bool is_address(const std::string& text) {
  unsigned char bytes[sizeof(in6_addr)];
  return inet_pton(AF_INET, text.c_str(), bytes) == 1 || inet_pton(AF_INET6, text.c_str(), bytes) == 1;
}

class Reader {
 public:
  Reader(ClusterFile& file, Faults& faults) : file_(file), faults_(faults), folder_(std::filesystem::path(file.path).parent_path()) {}

  void read(const toml::table& table) {
    for (auto&& [key, value] : table) read_section(key, value);
  }

 private:
  using Key = toml::key;

  std::string place(const Key& key, const std::string& name) const {
    return file_.path + ":" + std::to_string(key.source().begin.line) + ": " + quotable(name);
  }
  void fault(const std::string& where, const std::string& what) { faults_.push_back(where + ": " + what); }

  void read_section(const Key& key, const toml::node& value) {
    const std::string section(key.str());
    const std::string where = place(key, section);
    const auto known = cluster_sections();
    if (std::find(known.begin(), known.end(), section) == known.end()) {
      const auto nearest = nearest_word(section, known);
      return fault(where, "no such section" + (nearest.empty() ? std::string() : "; did you mean [" + std::string(nearest) + "]?"));
    }
    if (section == "node") return read_nodes(where, value);
    const toml::table* table = value.as_table();
    if (table == nullptr)
      return fault(where, value.is_array_of_tables() && section == "replica" ? "one [replica] for now; several come later"
                                                                             : "must be a section: [" + section + "]");
    for (auto&& [name, node] : *table) {
      const std::string path = section + "." + std::string(name.str());
      file_.lines[path] = name.source().begin.line;
      if (section == "serve")
        read_option(name, node, path);
      else
        read_key(section, name, node, path, nullptr);
    }
  }

  void read_nodes(const std::string& where, const toml::node& value) {
    if (!value.is_array_of_tables()) return fault(where, "nodes are written [[node]], each with keys of its own");
    if (value.as_array()->size() > kMostNodes) return fault(where, "more than " + std::to_string(kMostNodes) + " nodes");
    for (const toml::node& one : *value.as_array()) {
      ClusterNode node;
      node.line = one.source().begin.line;
      for (auto&& [name, entry] : *one.as_table()) {
        node.lines[std::string(name.str())] = name.source().begin.line;
        read_key("node", name, entry, "node." + std::string(name.str()), &node);
      }
      for (const std::string_view needed : {"name", "roles"})
        if (!node.lines.contains(needed)) fault(file_.place(node, "node." + std::string(needed)), "is missing");
      file_.nodes.push_back(std::move(node));
    }
  }

  /// A key of [serve].
  void read_option(const Key& name, const toml::node& node, const std::string& path) {
    const std::string text(name.str());
    const OptionRow* row = find_option(text);
    for (const KeyRow& own : cluster_key_table())
      if (row != nullptr && own.option == row->name)
        return fault(place(name, path), "belongs into [" + std::string(own.section) + "] as " + std::string(own.name));
    if (row == nullptr || row->no_file || (row->commands & kServe) == 0)
      return fault(place(name, path), "no such option of 'troupe serve'" + option_hint(text, kServe, ""));
    set(*row, node, place(name, path));
  }

  void set(const OptionRow& row, const toml::node& node, const std::string& where) {
    if (auto status = set_option(file_.options, row, node, where); !status) {
      faults_.push_back(status.error().client_text);
      file_.options.sources.erase(std::string(row.name));  // the default stays
      return;
    }
    const auto* text = std::get_if<std::string Options::*>(&row.field);
    const bool word = row.name == "cache-dir" && (file_.options.cache_dir == "auto" || file_.options.cache_dir == "none");
    if (text != nullptr && row.unit == "path" && !word) file_.options.** text = seen_from_here(file_.options.**text);
  }

  std::string seen_from_here(const std::string& path) const {
    return path.empty() || path.front() == '/' ? path : (folder_ / path).lexically_normal().string();
  }

  void read_key(const std::string& section, const Key& name, const toml::node& node, const std::string& path, ClusterNode* into) {
    const auto rows = cluster_key_table();
    const auto row = std::find_if(rows.begin(), rows.end(), [&](const KeyRow& r) { return r.section == section && r.name == name.str(); });
    const std::string where = place(name, path);
    if (row == rows.end()) {
      std::vector<std::string_view> names;
      for (const KeyRow& other : rows)
        if (other.section == section) names.push_back(other.name);
      const auto nearest = nearest_word(name.str(), names);
      return fault(where, "no such key" + (nearest.empty() ? std::string() : "; did you mean " + std::string(nearest) + "?"));
    }
    if (!row->option.empty()) return set(*find_option(row->option), node, where);
    if (auto* text = std::get_if<std::string ClusterFile::*>(&row->field)) {
      if (auto value = read_text(*row, node, where)) file_.** text = *value;
    } else if (auto* number = std::get_if<std::uint64_t ClusterFile::*>(&row->field)) {
      if (auto value = read_number(*row, node, where)) file_.** number = *value;
    } else if (auto* node_text = std::get_if<std::string ClusterNode::*>(&row->field)) {
      if (auto value = read_text(*row, node, where)) into->** node_text = *value;
    } else if (auto* texts = std::get_if<std::vector<std::string> ClusterNode::*>(&row->field)) {
      read_list(node, where, "names, for example [\"mixed\"]", [&](const toml::node& item) {
        if (auto value = read_text(*row, item, where)) (into->**texts).push_back(*value);
      });
    } else {
      auto& numbers = into->*std::get<std::vector<std::uint64_t> ClusterNode::*>(row->field);
      read_list(node, where, "numbers, for example [0, 1]", [&](const toml::node& item) {
        if (auto value = read_number(*row, item, where)) numbers.push_back(*value);
      });
    }
  }

  template <class Read>
  void read_list(const toml::node& node, const std::string& where, const std::string& what, Read read_item) {
    constexpr std::size_t kMostItems = 4096;
    const toml::array* items = node.as_array();
    if (items == nullptr || items->empty() || items->size() > kMostItems) return fault(where, "must be a list of " + what);
    for (const toml::node& item : *items) read_item(item);
  }

  std::optional<std::string> read_text(const KeyRow& row, const toml::node& node, const std::string& where) {
    const auto text = node.value_exact<std::string>();
    const auto wrong = [&](const std::string& allowed) {
      fault(where, (text ? "'" + quotable(*text) + "' is not valid; it must be " : "must be ") + allowed);
      return std::nullopt;
    };
    if (!text) return wrong("a text");
    if (row.words != nullptr) return read_word(row, *text, where);
    if (row.unit == "address" && !is_address(*text)) return wrong("an IP address, for example 192.168.1.2");
    if (row.unit == "name" && !is_name(*text))
      return wrong("1 to " + std::to_string(kLongestName) + " letters, digits or characters of ._- (no '.' at the start)");
    return row.unit == "path" ? seen_from_here(*text) : *text;
  }

  std::optional<std::string> read_word(const KeyRow& row, const std::string& text, const std::string& where) {
    std::string ready;
    for (const NodeWord& word : row.words()) {
      if (word.name == text && word.ready) return text;
      if (word.ready) ready += (ready.empty() ? "" : ", ") + std::string(word.name);
    }
    const auto words = row.words();
    const bool later = std::any_of(words.begin(), words.end(), [&](const NodeWord& word) { return word.name == text; });
    fault(where,
          "'" + quotable(text) + (later ? "' comes later; for now it must be one of " : "' is not known; it must be one of ") + ready);
    return std::nullopt;
  }

  std::optional<std::uint64_t> read_number(const KeyRow& row, const toml::node& node, const std::string& where) {
    const auto number = node.value_exact<std::int64_t>();
    if (number && static_cast<double>(*number) >= row.minimum && static_cast<double>(*number) <= row.maximum)
      return static_cast<std::uint64_t>(*number);
    fault(where, (number ? "'" + std::to_string(*number) + "' is not valid; it must be " : std::string("must be ")) +
                     "a whole number from " + std::to_string(static_cast<long>(row.minimum)) + " to " +
                     std::to_string(static_cast<long>(row.maximum)));
    return std::nullopt;
  }

  ClusterFile& file_;
  Faults& faults_;
  const std::filesystem::path folder_;
};

std::string placed(const std::string& path, std::size_t line, std::string_view key) {
  return path + (line == 0 ? "" : ":" + std::to_string(line)) + ": " + std::string(key);
}

}  // namespace

std::string ClusterFile::place(std::string_view key) const {
  const auto found = lines.find(key);
  return placed(path, found == lines.end() ? 0 : found->second, key);
}

std::string ClusterFile::place(const ClusterNode& node, std::string_view key) const {
  const auto found = node.lines.find(key.substr(key.find('.') + 1));
  return placed(path, found == node.lines.end() ? node.line : found->second, key);
}

ClusterFile parse_cluster_text(std::string_view text, const std::string& path, Faults& faults) {
  ClusterFile file;
  file.path = path;
  file.digest = base::hash_text(text);
  try {
    Reader(file, faults).read(toml::parse(text, path));
  } catch (const toml::parse_error& fault) {
    faults.push_back(path + ":" + std::to_string(fault.source().begin.line) + ": " + quotable(fault.description()));
  }
  return file;
}

ClusterFile read_cluster_file(const std::string& path, Faults& faults) {
  const auto text = base::read_small_file(path, kOption);
  if (text) return parse_cluster_text(*text, path, faults);
  faults.push_back(text.error().client_text.substr(2));  // without dashes
  ClusterFile none;
  none.path = path;
  return none;
}

}  // namespace troupe::cluster::launch
