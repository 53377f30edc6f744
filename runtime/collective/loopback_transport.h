// Loopback: ranks that are threads of one process. For tests, and wherever a group fits into one process.
// A hub is shared by the ports of a group; any thread may hold it, each port and transport belongs to its rank's thread.
// Invariant: a message's bytes are read when its receiver asks for it, as a fast network would; so who overwrites them too early is found.
#pragma once
#include "runtime/collective/transport.h"

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace troupe::collective {

class LoopbackHub {
 public:
  /// On its way: read by the receiver, or kept when its sender leaves first.
  struct Message {
    std::span<const std::byte> bytes;
    std::vector<std::byte> kept;
    bool taken = false;
  };
  /// What came for one port. All of it under the hub's mutex.
  struct Box {
    bool open = true;
    std::vector<std::string> hellos;
    std::map<std::pair<std::size_t, Channel>, std::deque<std::shared_ptr<Message>>> lines;  // by sender
  };

  std::mutex& mutex() { return mutex_; }
  std::string add(const std::shared_ptr<Box>& box);
  std::shared_ptr<Box> find(const std::string& address);

 private:
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<Box>> boxes_;
  std::size_t added_ = 0;
};

Result<std::unique_ptr<Port>> open_loopback_port(const TransportSpec& spec);

}  // namespace troupe::collective
