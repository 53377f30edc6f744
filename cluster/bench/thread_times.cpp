// See thread_times.h.
#include "cluster/bench/thread_times.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace troupe::cluster::bench {
namespace {

template <class Each>
void for_each_thread(Each each) {
  std::error_code fault;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task", fault))
    each(std::atoi(entry.path().filename().c_str()), entry.path().string());
}

}  // namespace

ThreadTimes::ThreadTimes() : client_(gettid()) {}

std::map<std::string, double> ThreadTimes::seconds() const {
  std::map<std::string, double> out;
  for_each_thread([&](int thread, const std::string& folder) {
    std::string name;
    std::getline(std::ifstream(folder + "/comm"), name);
    double nanoseconds = 0;
    std::ifstream(folder + "/schedstat") >> nanoseconds;
    const char* group = thread == client_ ? "client" : name == "gateway" ? "gateway" : name.starts_with("caf.") ? "actors" : "compute";
    out[group] += nanoseconds * 1e-9;
  });
  return out;
}

std::vector<ThreadShare> thread_shares(const std::map<std::string, double>& before, const std::map<std::string, double>& after,
                                       double steps) {
  std::vector<ThreadShare> out;
  for (const auto& [group, seconds] : after) {
    const auto found = before.find(group);
    const double spent = seconds - (found == before.end() ? 0 : found->second);
    if (group != "compute" && steps > 0) out.push_back({group, spent * 1e6 / steps});
  }
  return out;
}

}  // namespace troupe::cluster::bench
