// See shaped_link.h.
#include "cluster/bench/shaped_link.h"

#include "messages/error_reasons.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <thread>
#include <unistd.h>

namespace troupe::cluster::bench {
namespace {

/// Bytes that pass at once. More would hide small messages; less than the largest packet that the kernel hands over in one piece (64 KiB)
/// makes it cut all of them, which a network card would do, at the cost of half as much time again as the ranks compute.
constexpr double kSmallestBurst = 72e3;
constexpr double kBurstSeconds = 2e-4;  // but as many as pass between two looks of the kernel
constexpr const char* kLatency = "50ms";

std::string number(std::size_t value) { return std::to_string(value); }
std::string outer_interface(std::size_t end) { return "troupe-bench-c" + number(end); }  // at most 15 characters
std::string outer_address(std::size_t end) { return "10.79." + number(end) + ".1"; }
std::string inner_address(std::size_t end) { return "10.79." + number(end) + ".2"; }
std::string data_address(std::size_t end) { return "10.80.0." + number(end + 1); }

/// With a namespace goes what is in it, though not before its last process; so links are removed by name, and their peers with them.
void remove_all() {
  for (std::size_t end = 0; end < ShapedLink::kEnds; ++end) {
    if (std::filesystem::exists("/sys/class/net/" + outer_interface(end)))
      static_cast<void>(run_program({"ip", "link", "del", outer_interface(end)}));
    if (std::filesystem::exists("/run/netns/" + ShapedLink::namespace_of(end)))
      static_cast<void>(run_program({"ip", "netns", "del", ShapedLink::namespace_of(end)}));
  }
}

/// The kernel tells that a link is up some time after it was asked for, up to a second; until then nobody takes it for a network.
Status wait_until_up() {
  constexpr std::chrono::milliseconds kLook{50};
  constexpr int kLooks = 200;
  for (std::size_t end = 0; end < ShapedLink::kEnds; ++end) {
    const Arguments is_up = {"ip",   "netns", "exec", ShapedLink::namespace_of(end),
                             "grep", "-q",    "up",   std::string("/sys/class/net/") + ShapedLink::kDataInterface + "/operstate"};
    Status seen = run_program(is_up);
    for (int look = 1; look < kLooks && !seen; ++look) {
      std::this_thread::sleep_for(kLook);
      seen = run_program(is_up);
    }
    if (!seen) return seen;
  }
  return ok_status();
}

}  // namespace

std::string ShapedLink::namespace_of(std::size_t end) { return "troupe-bench-" + number(end); }

std::vector<Arguments> link_commands() {
  std::vector<Arguments> out;
  for (std::size_t end = 0; end < ShapedLink::kEnds; ++end) {
    const std::string name = ShapedLink::namespace_of(end), outer = outer_interface(end);
    out.push_back({"ip", "netns", "add", name});
    out.push_back({"ip", "-n", name, "link", "set", "lo", "up"});
    out.push_back({"ip", "link", "add", outer, "type", "veth", "peer", "name", "control", "netns", name});
    out.push_back({"ip", "addr", "add", outer_address(end) + "/30", "dev", outer});
    if (end == 0) out.push_back({"ip", "addr", "add", std::string(ShapedLink::kControlHost) + "/32", "dev", outer});
    out.push_back({"ip", "link", "set", outer, "up"});
    out.push_back({"ip", "-n", name, "addr", "add", inner_address(end) + "/30", "dev", "control"});
    out.push_back({"ip", "-n", name, "link", "set", "control", "up"});
    out.push_back({"ip", "-n", name, "route", "add", std::string(ShapedLink::kControlHost) + "/32", "via", outer_address(end)});
  }
  const std::string data = ShapedLink::kDataInterface;
  out.push_back({"ip", "link", "add", data, "netns", ShapedLink::namespace_of(0), "type", "veth", "peer", "name", data, "netns",
                 ShapedLink::namespace_of(1)});
  for (std::size_t end = 0; end < ShapedLink::kEnds; ++end) {
    out.push_back({"ip", "-n", ShapedLink::namespace_of(end), "addr", "add", data_address(end) + "/24", "dev", data});
    out.push_back({"ip", "-n", ShapedLink::namespace_of(end), "link", "set", data, "up"});
  }
  return out;
}

std::vector<Arguments> shape_commands(double megabits) {
  const double burst = std::max(kSmallestBurst, megabits * 1e6 / 8 * kBurstSeconds);
  std::vector<Arguments> out;
  for (std::size_t end = 0; end < ShapedLink::kEnds; ++end)
    out.push_back({"tc", "-n", ShapedLink::namespace_of(end), "qdisc", "replace", "dev", ShapedLink::kDataInterface, "root", "tbf", "rate",
                   std::to_string(std::llround(megabits * 1e3)) + "kbit", "burst", std::to_string(std::llround(burst)), "latency",
                   kLatency});
  return out;
}

Result<std::unique_ptr<ShapedLink>> ShapedLink::make() {
  if (::geteuid() != 0)
    return make_error(ErrorClass::kInvalidRequest, ErrorReason::kBadConfig,
                      "suite tp measures over a link that it makes: it needs root (network namespaces, `ip` and `tc` of iproute2)");
  remove_all();
  std::unique_ptr<ShapedLink> link(new ShapedLink);  // removes what was made before a fault
  for (const Arguments& command : link_commands())
    if (auto status = run_program(command); !status) return status.error();
  if (auto status = wait_until_up(); !status) return status.error();
  return link;
}

ShapedLink::~ShapedLink() { remove_all(); }

Status ShapedLink::shape(double megabits) {
  for (const Arguments& command : shape_commands(megabits))
    if (auto status = run_program(command); !status) return status;
  return ok_status();
}

}  // namespace troupe::cluster::bench
