// See machine.h.
#include "cluster/bench/machine.h"

#include <cstdlib>
#include <ctime>
#include <fstream>
#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

namespace troupe::cluster::bench {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name"))
      if (const auto colon = line.find(": "); colon != std::string::npos) return line.substr(colon + 2);
  return {};
}

/// "2048K" as the kernel writes sizes of caches.
std::uint64_t size_of(const std::string& text) {
  char* end = nullptr;
  const std::uint64_t number = std::strtoull(text.c_str(), &end, 10);
  return number << (*end == 'K' ? 10 : *end == 'M' ? 20 : 0);
}

void read_caches(Machine& machine) {
  for (int i = 0; i < 8; ++i) {
    const std::string folder = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(i) + "/";
    const std::string level = first_line(folder + "level"), type = first_line(folder + "type");
    if (level.empty()) return;
    const std::uint64_t bytes = size_of(first_line(folder + "size"));
    if (level == "1" && type == "Data") machine.l1d_bytes = bytes;
    if (level == "2") machine.l2_bytes = bytes;
    if (level == "3") machine.l3_bytes = bytes;
  }
}

}  // namespace

Machine this_machine() {
  Machine machine;
  machine.cpu = cpu_name();
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof mask, &mask) == 0) machine.cores = static_cast<unsigned>(CPU_COUNT(&mask));
  read_caches(machine);
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  if (pages > 0 && page > 0) machine.memory_bytes = static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page);
  utsname name{};
  if (uname(&name) == 0) machine.system = std::string(name.sysname) + " " + name.release + " " + name.machine;
  double load = 0;
  if (getloadavg(&load, 1) == 1) machine.load = load;
  return machine;
}

std::string this_build() {
#if defined(__clang__)
  const std::string compiler = "clang " __clang_version__;
#else
  const std::string compiler = "g++ " __VERSION__;
#endif
#if defined(NDEBUG)
  return compiler + ", optimized";
#else
  return compiler + ", with assertions";
#endif
}

std::string date_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace troupe::cluster::bench
