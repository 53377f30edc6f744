#include "runtime/exec/step_trace.h"

#include "runtime/base/log.h"

namespace troupe::exec {
namespace {

constexpr std::size_t kEventsAtOnce = 4096;
constexpr long kEnd = 3;  // of "\n]\n", which the next flush writes over

double micros(StepTrace::Time time) { return std::chrono::duration<double, std::micro>(time.time_since_epoch()).count(); }

}  // namespace

std::string StepTrace::file_of(const std::string& path, std::uint16_t rank) { return path + ".rank" + std::to_string(rank) + ".json"; }

StepTrace::StepTrace(const std::string& path, std::uint16_t rank) : rank_(rank), file_(std::fopen(file_of(path, rank).c_str(), "w")) {
  if (!file_) {
    close("cannot be opened");
    return;
  }
  std::fprintf(file_.get(), R"([{"name": "process_name", "ph": "M", "pid": %d, "args": {"name": "rank %d"}})", rank, rank);
  for (const Lane lane : {kCompute, kWire})
    std::fprintf(file_.get(),
                 ",\n"
                 R"({"name": "thread_name", "ph": "M", "pid": %d, "tid": %d, "args": {"name": "%s"}})",
                 rank, lane, name_of(lane));
  std::fputs("\n]\n", file_.get());
  flush();
}

void StepTrace::computed(std::string name, Time begin, Time end) { note({std::move(name), kCompute, begin, end, 0, 0}); }

void StepTrace::reduced(std::string name, const collective::WireSpan& span) {
  note({std::move(name), kWire, span.begin, span.end, span.bytes, 0});
}

void StepTrace::note(Event event) {
  if (file_) events_.push_back(std::move(event));
}

void StepTrace::end_step(std::uint64_t step) {
  for (std::size_t i = step_begin_; i < events_.size(); ++i) events_[i].step = step;
  step_begin_ = events_.size();
  if (events_.size() >= kEventsAtOnce) flush();
}

void StepTrace::flush() {
  if (!file_) return;
  std::fseek(file_.get(), -kEnd, SEEK_CUR);
  for (const Event& event : events_) {
    std::fprintf(file_.get(),
                 ",\n"
                 R"({"name": "%s", "cat": "%s", "ph": "X", "pid": %d, "tid": %d, "ts": %.1f, "dur": %.1f, )",
                 event.name.c_str(), name_of(event.lane), rank_, event.lane, micros(event.begin), micros(event.end) - micros(event.begin));
    std::fprintf(file_.get(), R"("args": {"step": %llu, "bytes": %zu}})", static_cast<unsigned long long>(event.step), event.bytes);
  }
  std::fputs("\n]\n", file_.get());
  written_ += events_.size();
  events_.clear();
  step_begin_ = 0;
  if (std::fflush(file_.get()) != 0 || std::ferror(file_.get()) != 0) return close("cannot be written");
  if (written_ >= kMostEvents) close("full");
}

void StepTrace::close(const char* why) {
  base::log(base::LogLevel::kWarning, "step_trace_ended", "rank=" + std::to_string(rank_) + " reason=" + base::log_value(why));
  file_.reset();
  events_.clear();
  step_begin_ = 0;
}

}  // namespace troupe::exec
