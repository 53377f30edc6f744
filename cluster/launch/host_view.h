// HostView: what a cluster file is checked against: this machine's cores, memory and networks. this_host() looks; tests give their own.
// Main thread.
#pragma once
#include "messages/error.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace troupe::cluster::launch {

struct NetworkInterface {
  std::string name;
  std::vector<std::string> addresses;
  bool default_route = false;  // of IPv4 or IPv6
};

struct HostView {
  std::vector<std::uint16_t> cores;  // that this process may use, ascending
  std::uint64_t memory_bytes = 0;    // likewise
  /// Of a network namespace below /run/netns; "" = of this process. An Error says why it cannot be looked at.
  std::function<Result<std::vector<NetworkInterface>>(const std::string& network_namespace)> interfaces;
  /// An Error says why this process could not listen there.
  std::function<Status(const std::string& address, std::uint16_t port)> can_listen;
};
HostView this_host();

/// Interfaces of the lines of /proc/net/route and /proc/net/ipv6_route that lead everywhere.
std::vector<std::string> default_routes(const std::string& route, const std::string& ipv6_route);

}  // namespace troupe::cluster::launch
