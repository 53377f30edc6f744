// The key table of cluster files: one row a key. It gives the file's checks, its hints and the table in docs/cluster.md. Many keys stand
// for an option of `troupe serve` and have its type, default and range. Immutable; any thread.
#pragma once
#include "cluster/launch/cluster_file.h"
#include "cluster/option_table.h"

#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace troupe::cluster::launch {

/// A role of a node, or a way to start one. Those that are not ready are refused with these words.
struct NodeWord {
  std::string_view name;
  bool ready = true;
};
std::span<const NodeWord> node_roles();
std::span<const NodeWord> node_starters();

using KeyField = std::variant<std::monostate, std::string ClusterFile::*, std::uint64_t ClusterFile::*, std::string ClusterNode::*,
                              std::vector<std::string> ClusterNode::*, std::vector<std::uint64_t> ClusterNode::*>;

struct KeyRow {
  std::string_view section;      // "node" may be there several times
  std::string_view name;         // within it
  std::string_view option = {};  // the option of `troupe serve` that it sets; else `field`
  std::string_view unit = {};    // "name" (a word), "path", "address", "number", "ms", "numbers", "names"
  KeyField field = {};
  double minimum = 0, maximum = 0;                 // of numbers, and of each in a list
  std::span<const NodeWord> (*words)() = nullptr;  // the only texts allowed
  std::string_view help = {};                      // of an option: empty = the option's
};

std::span<const KeyRow> cluster_key_table();
/// The sections that a file may have, [serve] with any option of `troupe serve` among them.
std::vector<std::string_view> cluster_sections();
/// What sets an option of `troupe serve`: "replica.codec", "serve.port".
std::string key_of_option(std::string_view option);
/// As docs/cluster.md has it.
std::string cluster_keys_markdown();

}  // namespace troupe::cluster::launch
