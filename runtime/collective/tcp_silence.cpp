#include "runtime/collective/tcp_silence.h"

#include <ifaddrs.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <system_error>
#include <vector>

namespace troupe::collective {
namespace {

/// An address without its port; empty where it is no IP address.
std::string host_of(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    const in_addr host = reinterpret_cast<const sockaddr_in*>(address)->sin_addr;
    return {reinterpret_cast<const char*>(&host), sizeof host};
  }
  if (address->sa_family == AF_INET6) {
    const in6_addr host = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
    return {reinterpret_cast<const char*>(&host), sizeof host};
  }
  return {};
}

std::vector<std::string> hosts_of(const std::string& interface) {
  std::vector<std::string> hosts;
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return hosts;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || interface != one->ifa_name) continue;
    if (std::string host = host_of(one->ifa_addr); !host.empty()) hosts.push_back(std::move(host));
  }
  ::freeifaddrs(all);
  return hosts;
}

/// The own end's address; empty where the descriptor is no connected socket.
std::string own_host(int descriptor) {
  sockaddr_storage peer{}, own{};
  socklen_t peer_bytes = sizeof peer, own_bytes = sizeof own;
  if (::getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &peer_bytes) != 0) return {};
  if (::getsockname(descriptor, reinterpret_cast<sockaddr*>(&own), &own_bytes) != 0) return {};
  return host_of(reinterpret_cast<const sockaddr*>(&own));
}

void set(int descriptor, int level, int name, int value) { ::setsockopt(descriptor, level, name, &value, sizeof value); }

void bound(int descriptor, std::chrono::milliseconds silence) {
  const int seconds = static_cast<int>(std::max<std::chrono::milliseconds::rep>(1, silence.count() / 1000));
  // The first is for bytes under way, the others for a connection without any.
  set(descriptor, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(silence.count()));
  set(descriptor, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, seconds);
  set(descriptor, IPPROTO_TCP, TCP_KEEPINTVL, seconds);
}

}  // namespace

// UCX has no setting for this and does not show its sockets, so the process looks through its own.
void bound_tcp_silence(const std::string& interface, std::chrono::milliseconds silence) {
  const std::vector<std::string> hosts = hosts_of(interface);
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc/self/fd", error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename();
    int descriptor = -1;
    if (std::from_chars(name.data(), name.data() + name.size(), descriptor).ec != std::errc()) continue;
    const std::string host = own_host(descriptor);
    if (std::find(hosts.begin(), hosts.end(), host) != hosts.end()) bound(descriptor, silence);
  }
}

}  // namespace troupe::collective
