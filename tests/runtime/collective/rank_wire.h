// What the test and its rank processes say to each other over a socket: texts with their length.
#pragma once
#include <sys/socket.h>
#include <sys/types.h>
#include <cstdint>
#include <optional>
#include <string>

namespace troupe::test {

inline bool say(int socket, const std::string& text) {
  const auto length = static_cast<std::uint32_t>(text.size());
  std::string bytes(reinterpret_cast<const char*>(&length), sizeof length);
  bytes += text;
  return ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

/// None: the other side is gone.
inline std::optional<std::string> hear(int socket) {
  std::uint32_t length = 0;
  if (::recv(socket, &length, sizeof length, MSG_WAITALL) != static_cast<ssize_t>(sizeof length)) return std::nullopt;
  std::string text(length, '\0');
  if (length != 0 && ::recv(socket, text.data(), length, MSG_WAITALL) != static_cast<ssize_t>(length)) return std::nullopt;
  return text;
}

}  // namespace troupe::test
