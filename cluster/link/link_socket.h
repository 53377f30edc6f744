// TCP sockets of the cluster link: numeric addresses only, non-blocking, closed on exec. Any thread.
#pragma once
#include "messages/error.h"
#include "runtime/base/descriptor.h"

#include <chrono>
#include <cstdint>
#include <string>

namespace troupe::cluster::link {

/// The Error's text is the reason alone.
Result<base::Descriptor> listening_socket(const std::string& host, std::uint16_t port);
Result<base::Descriptor> connected_socket(const std::string& host, std::uint16_t port, std::chrono::steady_clock::time_point deadline);
/// Until the socket can be read or written; false when time is up.
bool wait_for(int socket, bool write, std::chrono::steady_clock::time_point deadline);
std::uint16_t local_port(int socket);
/// host:port; "?" where it is gone.
std::string peer_address(int socket);

}  // namespace troupe::cluster::link
