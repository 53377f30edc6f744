// ClusterFile: what the TOML file of `troupe launch` says, checked value by value; whether it fits together and fits the machine is
// rank_placement.h's and cluster_check.h's. The keys are rows of cluster_key_table.cpp. A plain value; read once, on the main thread.
#pragma once
#include "cluster/options.h"
#include "messages/ids.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::cluster::launch {

/// One line each, "a.toml:7: node.cores: what is wrong, and what is allowed". All that are found are told.
using Faults = std::vector<std::string>;
using KeyLines = std::map<std::string, std::size_t, std::less<>>;  // "control.port" -> line

struct ClusterNode {
  std::string name;
  std::vector<std::string> roles;
  std::string start = "local";
  std::vector<std::uint64_t> ranks;  // empty: dealt in order
  std::vector<std::uint64_t> cores;  // empty: dealt
  std::string address, network_namespace, interface;
  std::size_t line = 0;  // of its [[node]]
  KeyLines lines;        // of the keys it has
  bool is_gateway() const { return roles == std::vector<std::string>{"gateway"}; }
};

struct ClusterFile {
  std::string path;
  Hash128 digest;   // of its text
  Options options;  // from [serve], [replica] and [data_plane]; with paths as seen from this process
  std::string name = "troupe";
  std::string control_address = "127.0.0.1";
  std::uint64_t control_port = 0;
  std::string tls_ca, tls_cert, tls_key;  // "{node}" stands for the node's name
  std::uint64_t heartbeat_ms = 200, timeout_ms = 1000;
  std::vector<ClusterNode> nodes;
  KeyLines lines;

  /// "a.toml:7: control.port", for a fault; without a line where the file does not have the key.
  std::string place(std::string_view key) const;
  std::string place(const ClusterNode& node, std::string_view key) const;
};

/// Of a file with faults, what could be read.
ClusterFile read_cluster_file(const std::string& path, Faults& faults);
ClusterFile parse_cluster_text(std::string_view text, const std::string& path, Faults& faults);

}  // namespace troupe::cluster::launch
