// The rows. See cluster_key_table.h.
#include "cluster/launch/cluster_key_table.h"

#include <algorithm>
#include <array>

namespace troupe::cluster::launch {

std::span<const NodeWord> node_roles() {
  static constexpr std::array kRows{
      NodeWord{"gateway"},         // the launching process itself: HTTP, sessions, scheduler, cache index; exactly one node
      NodeWord{"mixed"},           // computes prefill and decode: a process for each of its ranks
      NodeWord{"prefill", false},  // computes prompts for others
      NodeWord{"decode", false},   // takes prompts computed by others
  };
  return kRows;
}

std::span<const NodeWord> node_starters() {
  static constexpr std::array kRows{
      NodeWord{"local"},         // a child of the launching process, on this host
      NodeWord{"ssh", false},    // over ssh, on another host
      NodeWord{"slurm", false},  // a step of a Slurm job
  };
  return kRows;
}

std::span<const KeyRow> cluster_key_table() {
  static const std::vector<KeyRow> kRows = {
      {.section = "cluster",
       .name = "name",
       .unit = "name",
       .field = &ClusterFile::name,
       .help = "Name of the cluster; processes of another one are refused"},
      {.section = "replica", .name = "model", .option = "model", .help = "GGUF file to serve, as seen from this file"},
      {.section = "replica", .name = "tensor_parallel", .option = "tensor-parallel"},
      {.section = "replica", .name = "pipeline_parallel", .option = "pipeline-parallel"},
      {.section = "replica", .name = "codec", .option = "codec"},
      {.section = "replica", .name = "overlap", .option = "overlap"},
      {.section = "data_plane", .name = "transport", .option = "transport"},
      {.section = "data_plane", .name = "interface", .option = "data-interface"},
      {.section = "data_plane", .name = "allow_default_route", .option = "allow-default-route"},
      {.section = "control",
       .name = "address",
       .unit = "address",
       .field = &ClusterFile::control_address,
       .help = "IP address of this host where ranks report to the gateway node"},
      {.section = "control",
       .name = "port",
       .unit = "number",
       .field = &ClusterFile::control_port,
       .maximum = 65535,
       .help = "Its TCP port; 0 takes a free one"},
      {.section = "control",
       .name = "tls_ca",
       .unit = "path",
       .field = &ClusterFile::tls_ca,
       .help = "PEM file with the cluster's certificate authority; who has a certificate of it is a member. Without these three files the "
               "launcher makes certificates for this run alone"},
      {.section = "control",
       .name = "tls_cert",
       .unit = "path",
       .field = &ClusterFile::tls_cert,
       .help = "PEM file with a node's certificate; its name is the node's (of a node with several ranks NAME.RANK each). {node} in the "
               "path stands for that name"},
      {.section = "control",
       .name = "tls_key",
       .unit = "path",
       .field = &ClusterFile::tls_key,
       .help = "PEM file with its private key, likewise"},
      {.section = "control",
       .name = "heartbeat_ms",
       .unit = "ms",
       .field = &ClusterFile::heartbeat_ms,
       .minimum = 10,
       .maximum = 60000,
       .help = "Time between two signs of life on a quiet connection"},
      {.section = "control",
       .name = "timeout_ms",
       .unit = "ms",
       .field = &ClusterFile::timeout_ms,
       .minimum = 50,
       .maximum = 600000,
       .help = "Silence after which a node counts as lost; at least three heartbeats"},
      {.section = "node", .name = "name", .unit = "name", .field = &ClusterNode::name, .help = "Needed: its name in logs and certificates"},
      {.section = "node", .name = "roles", .unit = "names", .field = &ClusterNode::roles, .words = node_roles, .help = "Needed: one role"},
      {.section = "node",
       .name = "start",
       .unit = "name",
       .field = &ClusterNode::start,
       .words = node_starters,
       .help = "How it is started"},
      {.section = "node",
       .name = "ranks",
       .unit = "numbers",
       .field = &ClusterNode::ranks,
       .maximum = 4095,
       .help = "Ranks that run here: rank = stage * tensor_parallel + place in the stage. Without: dealt over the nodes in order"},
      {.section = "node",
       .name = "cores",
       .unit = "numbers",
       .field = &ClusterNode::cores,
       .maximum = 65535,
       .help = "CPU cores of its ranks, divided among them. Without: a share of those that no other node names"},
      {.section = "node",
       .name = "namespace",
       .unit = "name",
       .field = &ClusterNode::network_namespace,
       .help = "Network namespace of its processes (`ip netns`); needs root"},
      {.section = "node",
       .name = "interface",
       .unit = "name",
       .field = &ClusterNode::interface,
       .help = "Its network interface for rows, where it is not that of data_plane.interface"},
      {.section = "node",
       .name = "address",
       .unit = "address",
       .field = &ClusterNode::address,
       .help = "IP address of its host; names the interface for rows, where none is named. For now an address of this host"},
  };
  return kRows;
}

std::vector<std::string_view> cluster_sections() {
  std::vector<std::string_view> names = {"serve"};
  for (const KeyRow& row : cluster_key_table())
    if (std::find(names.begin(), names.end(), row.section) == names.end()) names.push_back(row.section);
  return names;
}

std::string key_of_option(std::string_view option) {
  for (const KeyRow& row : cluster_key_table())
    if (row.option == option) return std::string(row.section) + "." + std::string(row.name);
  return std::string("serve.").append(option);
}

namespace {

std::string words_text(std::span<const NodeWord> words) {
  std::string text;
  for (const NodeWord& word : words)
    if (word.ready) text += (text.empty() ? "" : ", ") + std::string(word.name);
  return text;
}

std::string default_text(const KeyRow& row) {
  if (const auto* text = std::get_if<std::string ClusterFile::*>(&row.field)) return ClusterFile{}.**text;
  if (const auto* number = std::get_if<std::uint64_t ClusterFile::*>(&row.field)) return std::to_string(ClusterFile{}.**number);
  if (const auto* text = std::get_if<std::string ClusterNode::*>(&row.field)) return ClusterNode{}.**text;
  return {};
}

std::string allowed_text(const KeyRow& row) {
  if (row.words != nullptr) return words_text(row.words());
  if (row.unit == "name") return "letters, digits, `.`, `_`, `-`";
  if (row.minimum == row.maximum) return {};
  return std::to_string(static_cast<long>(row.minimum)) + " to " + std::to_string(static_cast<long>(row.maximum));
}

}  // namespace

std::string cluster_keys_markdown() {
  std::string text = "| section | key | default | allowed | |\n|---|---|---|---|---|\n";
  for (const KeyRow& row : cluster_key_table()) {
    const OptionRow* option = row.option.empty() ? nullptr : find_option(row.option);
    const std::string section = row.section == "node" ? "[[node]]" : "[" + std::string(row.section) + "]";
    const std::string usual = option != nullptr ? option_text(Options{}, *option) : default_text(row);
    text += "| `" + section + "` | `" + std::string(row.name) + "` | " + (usual.empty() ? "" : "`" + usual + "`") + " | " +
            (option != nullptr ? allowed_text(*option) : allowed_text(row)) + " | " +
            std::string(row.help.empty() && option != nullptr ? option->help : row.help) + " |\n";
  }
  return text + "| `[serve]` | any other option of `troupe serve` | | | As on [its page](options.md); paths are as seen from the file |\n";
}

}  // namespace troupe::cluster::launch
