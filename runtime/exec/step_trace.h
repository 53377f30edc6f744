// StepTrace: what a rank computed and what was on its wire, and when, for people who want to see it: a Chrome trace (an array of complete
// events) with pid = rank and two lanes, "compute" and "wire". Times are those of the monotonic clock in microseconds, one clock for all
// ranks of a host, so files of several ranks can be put together.
// Owner: a rank's ShardEngine; compute thread only. Invariants: what lies in the file is valid JSON after every flush(); a file that cannot
// be written, or that is full, ends the trace and nothing else.
#pragma once
#include "runtime/collective/collective.h"

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace troupe::exec {

class StepTrace {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::size_t kMostEvents = 400'000;  // some 40 MB

  /// Writes "<path>.rank<r>.json". A file that was there is gone.
  StepTrace(const std::string& path, std::uint16_t rank);
  ~StepTrace() { flush(); }
  StepTrace(const StepTrace&) = delete;
  StepTrace& operator=(const StepTrace&) = delete;
  static std::string file_of(const std::string& path, std::uint16_t rank);

  void computed(std::string name, Time begin, Time end);
  void reduced(std::string name, const collective::WireSpan& span);
  /// At the end of a step: what was noted goes to the file now and then.
  void end_step(std::uint64_t step);
  void flush();

 private:
  enum Lane : int { kCompute = 1, kWire = 2 };  // threads of the trace
  static const char* name_of(Lane lane) { return lane == kCompute ? "compute" : "wire"; }
  struct Event {
    std::string name;
    Lane lane;
    Time begin, end;
    std::size_t bytes;
    std::uint64_t step;
  };
  void note(Event event);
  void close(const char* why);

  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::uint16_t rank_;
  std::unique_ptr<std::FILE, CloseFile> file_;  // null: the trace has ended
  std::vector<Event> events_;                   // not written yet
  std::size_t step_begin_ = 0;                  // in events_
  std::size_t written_ = 0;
};

}  // namespace troupe::exec
