// See host_view.h.
#include "cluster/launch/host_view.h"

#include "messages/error_reasons.h"
#include "runtime/base/descriptor.h"
#include "runtime/exec/kv_memory.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <ifaddrs.h>
#include <memory>
#include <netdb.h>
#include <optional>
#include <sched.h>
#include <sstream>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace troupe::cluster::launch {
namespace {

constexpr const char* kNamespaces = "/run/netns/";

Error refused(const std::string& what) { return make_error(ErrorClass::kInvalidRequest, ErrorReason::kBadConfig, what); }
std::string system_error() { return std::strerror(errno); }

std::vector<std::uint16_t> own_cores() {
  std::vector<std::uint16_t> cores;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (std::uint16_t core = 0; core < CPU_SETSIZE; ++core)
      if (CPU_ISSET(core, &set)) cores.push_back(core);
  return cores;
}

std::string read_all(const char* path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string address_text(const sockaddr* address) {
  char text[NI_MAXHOST] = "";
  const socklen_t size = address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  if (getnameinfo(address, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) return {};
  return std::string(text).substr(0, std::string(text).find('%'));  // without the scope of a link-local one
}

/// In the network namespace of the calling thread.
Result<std::vector<NetworkInterface>> look_around() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return refused("the network interfaces cannot be listed: " + system_error());
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
  std::vector<NetworkInterface> found;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    auto known = std::find_if(found.begin(), found.end(), [&](const NetworkInterface& one) { return one.name == entry->ifa_name; });
    if (known == found.end()) known = found.insert(found.end(), NetworkInterface{entry->ifa_name, {}, false});
    const bool ip = entry->ifa_addr != nullptr && (entry->ifa_addr->sa_family == AF_INET || entry->ifa_addr->sa_family == AF_INET6);
    if (ip) known->addresses.push_back(address_text(entry->ifa_addr));
  }
  const auto routes = default_routes(read_all("/proc/thread-self/net/route"), read_all("/proc/thread-self/net/ipv6_route"));
  for (NetworkInterface& one : found) one.default_route = std::find(routes.begin(), routes.end(), one.name) != routes.end();
  return found;
}

Result<std::vector<NetworkInterface>> look_into(const std::string& network_namespace) {
  if (network_namespace.empty()) return look_around();
  const std::string path = kNamespaces + network_namespace;
  const base::Descriptor handle(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (handle.get() < 0)
    return refused("there is no network namespace " + network_namespace + " (" + path + ": " + system_error() +
                   "); make it with 'ip netns add'");
  std::optional<Result<std::vector<NetworkInterface>>> seen;
  std::thread([&] {  // a thread of its own: the namespace is a thread's
    if (setns(handle.get(), CLONE_NEWNET) != 0)
      seen = Result<std::vector<NetworkInterface>>(
          refused("network namespace " + network_namespace + " cannot be entered (root is needed): " + system_error()));
    else
      seen = look_around();
  })
      .join();
  return *std::move(seen);
}

Status can_listen(const std::string& address, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int fault = getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found); fault != 0)
    return refused("cannot be resolved: " + std::string(gai_strerror(fault)));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  const base::Descriptor socket_(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  setsockopt(socket_.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (bind(socket_.get(), found->ai_addr, found->ai_addrlen) == 0 && listen(socket_.get(), 1) == 0) return ok_status();
  return refused(system_error());
}

}  // namespace

std::vector<std::string> default_routes(const std::string& route, const std::string& ipv6_route) {
  std::vector<std::string> names;
  std::istringstream lines(route);
  std::string line, name, target, mask, word;
  for (std::getline(lines, line); std::getline(lines, line);) {
    std::istringstream words(line);
    words >> name >> target;
    for (int skipped = 0; skipped < 5; ++skipped) words >> word;  // gateway, flags, references, uses, metric
    if (words >> mask && target == "00000000" && mask == "00000000") names.push_back(name);
  }
  std::istringstream lines6(ipv6_route);
  while (std::getline(lines6, line)) {
    std::istringstream words(line);
    std::string prefix;
    words >> target >> prefix;
    while (words >> name) {
    }  // the last word
    const bool everywhere = prefix == "00" && target.find_first_not_of('0') == target.npos;
    if (everywhere && name != "lo") names.push_back(name);
  }
  return names;
}

HostView this_host() {
  HostView view;
  view.cores = own_cores();
  view.memory_bytes = exec::usable_memory();
  view.interfaces = look_into;
  view.can_listen = can_listen;
  return view;
}

}  // namespace troupe::cluster::launch
