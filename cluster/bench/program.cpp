// See program.h.
#include "cluster/bench/program.h"

#include "messages/error_reasons.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace troupe::cluster::bench {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::size_t kLongestError = 400, kLongestLine = 1 << 16;
constexpr milliseconds kLook{50};

Error failed(const std::string& command, const std::string& why) {
  return make_error(ErrorClass::kUnavailable, ErrorReason::kUnclassified, "'" + command + "' failed: " + why);
}

/// `stream` (stdout or stderr) of the child is a pipe whose other end comes back; the other one goes to a file. A group of its own: Ctrl-C
/// is for this process, which then ends the child in order.
Result<std::pair<pid_t, base::Descriptor>> spawn(const Arguments& arguments, int stream, const std::filesystem::path& other) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return failed(arguments.front(), std::strerror(errno));
  base::Descriptor reader(ends[0]), writer(ends[1]);
  const base::Descriptor file(::open(other.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!file) return failed(arguments.front(), other.string() + " cannot be written");
  std::vector<char*> texts;
  for (const std::string& argument : arguments) texts.push_back(const_cast<char*>(argument.c_str()));
  texts.push_back(nullptr);
  const pid_t parent = ::getpid(), child = ::fork();
  if (child < 0) return failed(arguments.front(), std::strerror(errno));
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) ::_exit(1);  // it died before
    ::setpgid(0, 0);
    const int nothing = ::open("/dev/null", O_RDWR);
    ::dup2(nothing, STDIN_FILENO);
    ::dup2(file.get(), stream == STDERR_FILENO ? STDOUT_FILENO : STDERR_FILENO);
    ::dup2(writer.get(), stream);
    ::execvp(texts.front(), texts.data());
    ::_exit(127);
  }
  return std::pair{child, std::move(reader)};
}

bool has_ended(pid_t process, int& status, int flags) {
  for (;;) {
    const pid_t ended = ::waitpid(process, &status, flags);
    if (ended >= 0 || errno != EINTR) return ended != 0;
  }
}

/// On one line.
std::string joined(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  std::replace(text.begin(), text.end(), '\n', ';');
  return text;
}

std::string end_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  return joined(text.substr(text.size() - std::min(text.size(), kLongestError)));
}

/// All that comes, on one line; only its start is kept.
std::string drain(const base::Descriptor& from) {
  std::string out;
  char buffer[1024];
  for (;;) {
    const ssize_t got = ::read(from.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    if (out.size() < kLongestError) out.append(buffer, static_cast<std::size_t>(got));
  }
  if (out.size() > kLongestError) out.resize(kLongestError);
  return joined(std::move(out));
}

}  // namespace

std::string command_line(const Arguments& arguments) {
  std::string out;
  for (const std::string& argument : arguments) out += (out.empty() ? "" : " ") + argument;
  return out;
}

Status run_program(const Arguments& arguments) {
  auto spawned = spawn(arguments, STDERR_FILENO, "/dev/null");
  if (!spawned) return spawned.error();
  const std::string said = drain(spawned->second);
  int status = 0;
  has_ended(spawned->first, status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return ok_status();
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127) return failed(command_line(arguments), "there is no such program");
  return failed(command_line(arguments), said.empty() ? "it said nothing" : said);
}

RunningProgram::RunningProgram(pid_t process, base::Descriptor output, std::string name, std::filesystem::path log)
    : process_(process), output_(std::move(output)), name_(std::move(name)), log_(std::move(log)) {}
RunningProgram::RunningProgram(RunningProgram&& other) noexcept
    : process_(std::exchange(other.process_, -1)),
      output_(std::move(other.output_)),
      name_(std::move(other.name_)),
      unread_(std::move(other.unread_)),
      log_(std::move(other.log_)) {}
RunningProgram::~RunningProgram() { stop(std::chrono::seconds(5)); }

Result<RunningProgram> RunningProgram::start(const Arguments& arguments, const std::filesystem::path& log) {
  auto spawned = spawn(arguments, STDOUT_FILENO, log);
  if (!spawned) return spawned.error();
  return RunningProgram(spawned->first, std::move(spawned->second), command_line(arguments), log);
}

Result<std::string> RunningProgram::next_line(std::chrono::seconds patience, const std::atomic<bool>& stop) {
  const auto deadline = steady_clock::now() + patience;
  for (;;) {
    if (const auto end = unread_.find('\n'); end != std::string::npos) {
      std::string line = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      return line;
    }
    if (stop.load()) return failed(name_, "interrupted");
    if (steady_clock::now() > deadline) return failed(name_, "it wrote no line for " + std::to_string(patience.count()) + " s");
    pollfd look{output_.get(), POLLIN, 0};
    if (::poll(&look, 1, static_cast<int>(kLook.count())) <= 0) continue;
    char buffer[1024];
    const ssize_t got = ::read(output_.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0 || unread_.size() > kLongestLine) return failed(name_, "it has ended: " + end_of(log_));
    unread_.append(buffer, static_cast<std::size_t>(got));
  }
}

void RunningProgram::stop(std::chrono::seconds patience) {
  if (process_ < 0) return;
  ::kill(process_, SIGTERM);
  int status = 0;
  const auto deadline = steady_clock::now() + patience;
  while (!has_ended(process_, status, WNOHANG)) {
    if (steady_clock::now() > deadline) ::kill(process_, SIGKILL);
    std::this_thread::sleep_for(kLook);
  }
  process_ = -1;
}

}  // namespace troupe::cluster::bench
