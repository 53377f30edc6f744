#include "cluster/link/link_socket.h"

#include "messages/error_reasons.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

namespace troupe::cluster::link {
namespace {

constexpr int kBacklog = 64;

Error reason(const std::string& text) { return make_error(ErrorClass::kInvalidRequest, ErrorReason::kBadConfig, text); }
Error system_reason() { return reason(std::strerror(errno)); }

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;
Result<Addresses> numeric_address(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0)
    return reason("'" + host + "' is not a numeric address");
  return Addresses(found, &freeaddrinfo);
}

Result<base::Descriptor> new_socket(const addrinfo& address) {
  base::Descriptor socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return system_reason();
  return socket;
}

void set_option(int socket, int level, int option) {
  const int on = 1;
  setsockopt(socket, level, option, &on, sizeof on);
}

std::string text_of(const sockaddr_storage& address, socklen_t size) {
  char host[NI_MAXHOST], port[NI_MAXSERV];
  if (getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, host, sizeof host, port, sizeof port,
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return "?";
  return std::string(host) + ":" + port;
}

}  // namespace

Result<base::Descriptor> listening_socket(const std::string& host, std::uint16_t port) {
  auto address = numeric_address(host, port);
  if (!address) return address.error();
  auto socket = new_socket(**address);
  if (!socket) return socket.error();
  set_option(socket->get(), SOL_SOCKET, SO_REUSEADDR);
  if (::bind(socket->get(), (*address)->ai_addr, (*address)->ai_addrlen) != 0 || ::listen(socket->get(), kBacklog) != 0)
    return system_reason();
  return socket;
}

Result<base::Descriptor> connected_socket(const std::string& host, std::uint16_t port, std::chrono::steady_clock::time_point deadline) {
  auto address = numeric_address(host, port);
  if (!address) return address.error();
  auto socket = new_socket(**address);
  if (!socket) return socket.error();
  set_option(socket->get(), IPPROTO_TCP, TCP_NODELAY);
  if (::connect(socket->get(), (*address)->ai_addr, (*address)->ai_addrlen) != 0 && errno != EINPROGRESS) return system_reason();
  if (!wait_for(socket->get(), true, deadline)) return reason("no answer in time");
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(socket->get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return reason(std::strerror(error));
  return socket;
}

bool wait_for(int socket, bool write, std::chrono::steady_clock::time_point deadline) {
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    if (left <= 0) return false;
    pollfd polled{socket, static_cast<short>(write ? POLLOUT : POLLIN), 0};
    if (::poll(&polled, 1, static_cast<int>(std::min<long long>(left, 1000))) > 0) return true;
  }
}

std::uint16_t local_port(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  // The port stands at the same place for both families.
  return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

std::string peer_address(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  return getpeername(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0 ? text_of(address, size) : "?";
}

}  // namespace troupe::cluster::link
