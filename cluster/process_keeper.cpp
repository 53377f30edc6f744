#include "cluster/process_keeper.h"

#include "cluster/child_process.h"
#include "runtime/base/log.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <unistd.h>

namespace troupe::cluster {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kMostLine = 2048;  // bytes; what is longer is cut into several
constexpr int kTickMs = 50;              // while processes are asked to end
constexpr int kPatienceMs = 100;         // for a stderr that does not take a line; then the line is lost

void write_line(std::string_view prefix, std::string_view line) {
  std::string text(prefix);
  text.append(line).push_back('\n');
  pollfd out{STDERR_FILENO, POLLOUT, 0};
  if (::poll(&out, 1, kPatienceMs) != 1) return;
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
}

std::string end_of(int status) {
  if (WIFSIGNALED(status)) return "signal " + std::to_string(WTERMSIG(status));
  return "exit code " + std::to_string(WEXITSTATUS(status));
}

}  // namespace

ProcessKeeper::ProcessKeeper(OnExit on_exit, std::chrono::milliseconds grace)
    : on_exit_(std::move(on_exit)), grace_(grace), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), thread_([this] { run(); }) {}

ProcessKeeper::~ProcessKeeper() {
  {
    const std::lock_guard guard(mutex_);
    stop_ = true;
  }
  ::eventfd_write(wake_.get(), 1);
  thread_.join();
}

void ProcessKeeper::start(std::size_t index, ProcessSpec spec) {
  {
    const std::lock_guard guard(mutex_);
    commands_.emplace_back(index, std::move(spec));
  }
  ::eventfd_write(wake_.get(), 1);
}

void ProcessKeeper::run() {
  std::optional<Clock::time_point> deadline;
  std::vector<pollfd> polled;
  for (;;) {
    {
      const std::lock_guard guard(mutex_);
      if (stop_ && !deadline) deadline = Clock::now() + grace_;
    }
    if (!deadline) take_commands();
    if (deadline && end_children(*deadline)) return;
    polled.assign({{wake_.get(), POLLIN, 0}});
    for (const auto& child : children_) {
      polled.push_back({child.process.get(), POLLIN, 0});  // -1 is passed over
      polled.push_back({child.output.get(), POLLIN, 0});
    }
    ::poll(polled.data(), polled.size(), deadline ? kTickMs : -1);
    eventfd_t count;
    ::eventfd_read(wake_.get(), &count);
    for (std::size_t index = 0; index < children_.size(); ++index) {
      if (polled[2 + 2 * index].revents != 0) pass_on(children_[index], false);
      if (polled[1 + 2 * index].revents != 0) look_at(children_[index], index);
    }
  }
}

void ProcessKeeper::take_commands() {
  std::vector<std::pair<std::size_t, ProcessSpec>> commands;
  {
    const std::lock_guard guard(mutex_);
    commands.swap(commands_);
  }
  for (auto& [index, spec] : commands) {
    if (index >= children_.size()) children_.resize(index + 1);
    auto& child = children_[index];
    if (child.free()) {
      launch(index, std::move(spec));
    } else {
      ::kill(child.pid, SIGKILL);  // stopped ones too
      child.next = std::move(spec);
    }
  }
}

void ProcessKeeper::launch(std::size_t index, ProcessSpec spec) {
  auto& child = children_[index];
  child = {};
  auto started = start_process(spec);
  if (started.pid == 0) {
    on_exit_(index, spec.number, "it cannot be started: " + started.why);
    return;
  }
  base::log(base::LogLevel::kInfo, "process_started", "pid=" + std::to_string(started.pid) + " index=" + std::to_string(index));
  child.pid = started.pid;
  child.number = spec.number;
  child.process = std::move(started.process);
  child.output = std::move(started.output);
  child.prefix = std::move(spec.line_prefix);
}

void ProcessKeeper::look_at(Child& child, std::size_t index) {
  int status = 0;
  if (child.free() || ::waitpid(child.pid, &status, WNOHANG) != child.pid) return;
  pass_on(child, true);
  const auto number = child.number;
  auto next = std::move(child.next);
  child = {};
  on_exit_(index, number, end_of(status));
  if (next) launch(index, std::move(*next));
}

/// What the child has written, line by line; with `all` also a last one without an end.
void ProcessKeeper::pass_on(Child& child, bool all) {
  char bytes[4096];
  for (;;) {
    const auto count = child.output ? ::read(child.output.get(), bytes, sizeof bytes) : 0;
    if (count <= 0) {
      if (count == 0) child.output.reset();
      break;
    }
    for (const char byte : std::string_view(bytes, static_cast<std::size_t>(count))) {
      if (byte != '\n') child.line.push_back(byte);
      if (byte == '\n' || child.line.size() >= kMostLine) {
        write_line(child.prefix, child.line);
        child.line.clear();
      }
    }
    if (!all) break;  // one that writes without a pause is not all there is
  }
  if (all && !child.line.empty()) write_line(child.prefix, child.line);
}

/// True once none is left.
bool ProcessKeeper::end_children(Clock::time_point deadline) {
  const int signal = Clock::now() < deadline ? SIGTERM : SIGKILL;
  bool left = false;
  for (auto& child : children_) {
    child.next.reset();
    if (child.free()) continue;
    left = true;
    ::kill(child.pid, signal);
  }
  return !left;
}

}  // namespace troupe::cluster
