#include "runtime/collective/left_segments.h"

#include "runtime/base/log.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

namespace troupe::collective {
namespace {
namespace fs = std::filesystem;

constexpr char kFolder[] = "/dev/shm";
constexpr std::string_view kPrefix = "ucx_shm_posix_";

using FileId = std::pair<dev_t, ino_t>;
struct Segment {
  fs::path path;
  FileId file;
};

std::vector<Segment> named_segments() {
  std::vector<Segment> found;
  std::error_code error;
  for (fs::directory_iterator it(kFolder, error), end; !error && it != end; it.increment(error)) {
    struct stat info {};
    if (!it->path().filename().string().starts_with(kPrefix) || ::lstat(it->path().c_str(), &info) != 0) continue;
    if (S_ISREG(info.st_mode) && info.st_uid == ::geteuid()) found.push_back({it->path(), {info.st_dev, info.st_ino}});
  }
  return found;
}

/// What a process has open or mapped; processes end while they are looked at.
void add_used(const fs::path& process, std::set<FileId>& used) {
  std::error_code error;
  for (fs::directory_iterator it(process / "fd", error), end; !error && it != end; it.increment(error)) {
    struct stat info {};
    if (::stat(it->path().c_str(), &info) == 0) used.emplace(info.st_dev, info.st_ino);
  }
  std::ifstream maps(process / "maps");
  for (std::string line; std::getline(maps, line);) {
    unsigned major = 0, minor = 0;
    unsigned long file = 0;
    if (std::sscanf(line.c_str(), "%*s %*s %*s %x:%x %lu", &major, &minor, &file) == 3) used.emplace(makedev(major, minor), file);
  }
}

}  // namespace

void remove_left_segments() {
  // In this order: who makes a segment has it open from before it has a name until after.
  const auto segments = named_segments();
  if (segments.empty()) return;
  std::set<FileId> used;
  std::error_code error;
  for (fs::directory_iterator it("/proc", error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; })) add_used(it->path(), used);
  }
  for (const Segment& segment : segments) {
    if (used.contains(segment.file) || ::unlink(segment.path.c_str()) != 0) continue;
    base::log(base::LogLevel::kInfo, "left_segment_removed", "file=" + segment.path.string());
  }
}

}  // namespace troupe::collective
