// ShapedLink: two network namespaces on this host, joined by a link of a wanted speed, as if they were two hosts on a slow network:
//   troupe-bench-0  data 10.80.0.1  ==== tbf both ways ====  data 10.80.0.2  troupe-bench-1
// Beside it each has an unshaped link of its own to this process's namespace, for control; both reach the one address kControlHost.
// Needs root and iproute2. Owned by one suite, one thread; one at a time on a host.
// Invariant: nothing of it is left when this is gone; what a crashed run has left is removed before it is made anew.
#pragma once
#include "cluster/bench/program.h"
#include "messages/error.h"

#include <memory>
#include <string>
#include <vector>

namespace troupe::cluster::bench {

class ShapedLink {
 public:
  static constexpr std::size_t kEnds = 2;
  static constexpr const char* kControlHost = "10.79.255.1";
  static constexpr const char* kDataInterface = "data";
  static std::string namespace_of(std::size_t end);

  /// Not shaped yet. Errors: not root, no `ip`, what the kernel lacks.
  static Result<std::unique_ptr<ShapedLink>> make();
  ~ShapedLink();
  ShapedLink(const ShapedLink&) = delete;
  ShapedLink& operator=(const ShapedLink&) = delete;
  /// Both ways from now on, whatever is open.
  Status shape(double megabits);

 private:
  ShapedLink() = default;
};

/// What make() and shape() run, in order. Pure.
std::vector<Arguments> link_commands();
std::vector<Arguments> shape_commands(double megabits);

}  // namespace troupe::cluster::bench
