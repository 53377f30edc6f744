// ClusterPlan: which processes serve a replica together, and how they find each other. Filled from the options (`troupe serve
// --tensor-parallel 2`) or from a cluster file (`troupe launch`), checked there, and read-only afterwards; any thread.
// The launching process is the gateway node: it holds gateway, scheduler and tiers, and starts a rank process for each entry of `ranks`.
#pragma once
#include "messages/ids.h"
#include "runtime/base/shard_place.h"

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace troupe::cluster {

/// PEM files. All empty: certificates are made for this run alone and never written.
struct CertificateFiles {
  std::string authority;    // of the cluster: who has a certificate of it is a member
  std::string certificate;  // its name (CN or SAN) is the node's
  std::string key;
};

struct RankPlan {
  std::string node;                  // name: in the certificate and before each line that the process logs
  std::string network_namespace;     // below /run/netns; empty: the launching process's
  std::vector<std::uint16_t> cores;  // disjoint from those of the others; empty: those of the launching process
  std::string interface;             // of the data plane; empty: this host alone
  CertificateFiles certificate;
};

struct ClusterPlan {
  std::string name = "troupe";
  Hash128 digest;               // of the cluster file; 0 without one
  base::ParallelShape shape;    // shape.ranks() == ranks.size()
  std::vector<RankPlan> ranks;  // by rank
  std::string transport = "ucx";
  std::string codec = "auto";
  std::string gateway_node = "gateway";
  std::vector<std::uint16_t> gateway_cores;  // of the launching process; empty: as they are
  CertificateFiles gateway_certificate;
  std::string control_host = "127.0.0.1";  // where the launching process listens and the ranks connect: an address, not a name
  std::uint16_t control_port = 0;          // 0: a free one
  std::chrono::milliseconds heartbeat{200};
  std::chrono::milliseconds silence{1000};         // until a node counts as lost
  std::chrono::milliseconds join_timeout{15'000};  // from the start of a rank process until it has joined
};

}  // namespace troupe::cluster
