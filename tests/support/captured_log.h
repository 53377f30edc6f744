// CapturedLog: while it lives, what the process writes to stderr goes to a file in memory, where tests look for lines of the log.
#pragma once
#include <sys/mman.h>

#include <chrono>
#include <string>
#include <thread>
#include <unistd.h>

namespace troupe::test {

class CapturedLog {
 public:
  CapturedLog() : file_(::memfd_create("log", MFD_CLOEXEC)), stderr_(::dup(STDERR_FILENO)) { ::dup2(file_, STDERR_FILENO); }
  ~CapturedLog() {
    ::dup2(stderr_, STDERR_FILENO);
    ::close(stderr_);
    ::close(file_);
  }
  CapturedLog(const CapturedLog&) = delete;
  CapturedLog& operator=(const CapturedLog&) = delete;

  std::string text() const {
    std::string bytes(static_cast<std::size_t>(::lseek(file_, 0, SEEK_END)), '\0');
    const auto count = ::pread(file_, bytes.data(), bytes.size(), 0);
    bytes.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
    return bytes;
  }
  /// Until a line has `part`; false after 20 s.
  bool wait_for(const std::string& part) const {
    for (int i = 0; i < 2000; ++i) {
      if (text().find(part) != std::string::npos) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }

 private:
  int file_, stderr_;
};

}  // namespace troupe::test
