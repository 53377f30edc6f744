// RankOrder: what a rank process is told at its start, by the process that starts it: who it is, where the door is, and its certificate.
// One text through a file in memory, so that no key touches a disk or a command line. Plain values; any thread.
#pragma once
#include "cluster/link/certificates.h"
#include "messages/ids.h"

#include <chrono>
#include <cstdint>
#include <string>

namespace troupe::cluster {

struct RankOrder {
  std::string cluster;
  Hash128 digest;  // of the cluster file
  std::string node;
  std::uint32_t replica = 1;
  std::uint16_t rank = 0;
  Incarnation incarnation = 0;
  std::string door_host, door_node;  // an address; the name that its certificate must have
  std::uint16_t door_port = 0;
  std::chrono::milliseconds heartbeat{200}, silence{1000};
  std::string log_level, log_format;
  std::string fault;  // tests
  link::NodeCertificate certificate;

  std::string text() const;
  /// An Error names what is missing.
  static Result<RankOrder> parse(const std::string& text);
};

}  // namespace troupe::cluster
