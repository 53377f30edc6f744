// Processor time of this process's threads by what they are for: the served path's cost beside the kernels. Reads /proc/self/task.
#pragma once
#include "cluster/bench/report.h"

#include <map>
#include <string>
#include <vector>

namespace troupe::cluster::bench {

class ThreadTimes {
 public:
  /// Belongs to the client's thread.
  ThreadTimes();
  /// Seconds so far by group: "client" (the thread that made this), "gateway", "actors" (CAF's), "compute" (all others).
  std::map<std::string, double> seconds() const;

 private:
  int client_;
};

/// The groups that are not compute, for one step each.
std::vector<ThreadShare> thread_shares(const std::map<std::string, double>& before, const std::map<std::string, double>& after,
                                       double steps);

}  // namespace troupe::cluster::bench
