// Other programs, run without a shell: for measurements that need `ip`, `tc`, or servers in processes of their own.
// Used by one thread, which lives as long as they do. Invariant: what runs here ends with this process, however that ends.
#pragma once
#include "messages/error.h"
#include "runtime/base/descriptor.h"

#include <atomic>
#include <chrono>
#include <filesystem>
#include <string>
#include <sys/types.h>
#include <vector>

namespace troupe::cluster::bench {

using Arguments = std::vector<std::string>;  // [0] is the program, looked up in PATH

/// "ip link del x", for error texts.
std::string command_line(const Arguments& arguments);
/// Waits for its end. Error: it cannot be started, or ends with another code than 0; tells what it wrote to stderr.
Status run_program(const Arguments& arguments);

/// A program that goes on; what it writes to stdout is read line by line, stderr goes to a file. Killed when this goes.
class RunningProgram {
 public:
  static Result<RunningProgram> start(const Arguments& arguments, const std::filesystem::path& log);
  RunningProgram(RunningProgram&& other) noexcept;
  RunningProgram& operator=(RunningProgram&&) = delete;
  ~RunningProgram();
  /// Error: none within `patience`, its end (with the last lines of its log), or `stop`.
  Result<std::string> next_line(std::chrono::seconds patience, const std::atomic<bool>& stop);
  /// SIGTERM, and SIGKILL if it is still there after `patience`.
  void stop(std::chrono::seconds patience);

 private:
  RunningProgram(pid_t process, base::Descriptor output, std::string name, std::filesystem::path log);
  pid_t process_ = -1;
  base::Descriptor output_;
  std::string name_, unread_;
  std::filesystem::path log_;
};

}  // namespace troupe::cluster::bench
