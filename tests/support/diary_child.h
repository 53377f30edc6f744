// DiaryChild: a process that does what it is told until it is killed, and writes down what it did: entries of one size through a pipe,
// whole or not at all (at most PIPE_BUF at once). For tests of what a kill leaves behind.
#pragma once
#include <catch2/catch.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace troupe::test {

template <class Entry>
class DiaryChild {
 public:
  /// `drive(diary)` runs in the child, with the descriptor to write to; it ends by the kill, or with a status of its own.
  template <class Drive>
  explicit DiaryChild(Drive drive) {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    child_ = ::fork();
    if (child_ == 0) {
      ::close(ends[0]);
      try {
        drive(ends[1]);
      } catch (...) {
      }
      ::_exit(6);
    }
    ::close(ends[1]);
    diary_ = ends[0];
    REQUIRE(child_ > 0);
  }
  ~DiaryChild() {
    if (child_ > 0) {
      kill();
      ::waitpid(child_, nullptr, 0);
    }
    ::close(diary_);
  }
  DiaryChild(const DiaryChild&) = delete;
  DiaryChild& operator=(const DiaryChild&) = delete;

  /// The next entry; false: the child is gone and all is read.
  bool read(Entry& entry) const { return ::read(diary_, &entry, sizeof entry) == static_cast<ssize_t>(sizeof entry); }
  void kill() const { ::kill(child_, SIGKILL); }
  /// Waits for the end; whether the kill was it, so that the child has found no fault by itself.
  bool was_killed() {
    int status = 0;
    REQUIRE(::waitpid(child_, &status, 0) == child_);
    child_ = -1;
    return WIFSIGNALED(status);
  }

 private:
  pid_t child_ = -1;
  int diary_ = -1;
};

}  // namespace troupe::test
