#include "cluster/child_process.h"

#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

namespace troupe::cluster {
namespace {

constexpr int kNotStarted = 127;

StartedProcess failed(const std::string& what) { return {0, {}, {}, what + ": " + std::strerror(errno)}; }

/// All that the child needs, made before the fork.
struct Prepared {
  int parent = 0, output = -1, none = -1, network = -1, secret = -1;
  bool has_cores = false;
  cpu_set_t cores;
  const char* program = nullptr;
  char* const* arguments = nullptr;
};

[[noreturn]] void give_up(const char* what) {
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, what, std::strlen(what));
  ::_exit(kNotStarted);
}

/// With a /sys of the namespace, as `ip netns exec` gives one, since UCX looks for interfaces there; control groups stay below it.
bool enter_network(int network) {
  if (::setns(network, CLONE_NEWNET) != 0 || ::unshare(CLONE_NEWNS) != 0) return false;
  if (::mount("", "/", "none", MS_SLAVE | MS_REC, nullptr) != 0) return false;
  const int groups = ::open_tree(AT_FDCWD, "/sys/fs/cgroup", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
  if (::mount("sysfs", "/sys", "sysfs", 0, nullptr) != 0) return false;
  ::move_mount(groups, "", AT_FDCWD, "/sys/fs/cgroup", MOVE_MOUNT_F_EMPTY_PATH);
  return true;
}

/// In the child: async-signal-safe calls alone.
[[noreturn]] void become(const Prepared& prepared) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != prepared.parent) ::_exit(kNotStarted);  // it died before
  ::setpgid(0, 0);                                           // Ctrl-C is for the parent, which drains first
  ::dup2(prepared.none, STDIN_FILENO);
  ::dup2(prepared.output, STDOUT_FILENO);
  ::dup2(prepared.output, STDERR_FILENO);
  if (prepared.network >= 0 && !enter_network(prepared.network)) give_up("the network namespace cannot be entered\n");
  if (prepared.has_cores && ::sched_setaffinity(0, sizeof prepared.cores, &prepared.cores) != 0) give_up("it may not have these cores\n");
  if (prepared.secret >= 0 && prepared.secret != kSecretDescriptor) ::dup2(prepared.secret, kSecretDescriptor);
  if (prepared.secret == kSecretDescriptor) ::fcntl(kSecretDescriptor, F_SETFD, 0);
  ::close_range(prepared.secret >= 0 ? kSecretDescriptor + 1 : kSecretDescriptor, ~0U, 0);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execv(prepared.program, prepared.arguments);
  give_up("the program cannot be started\n");
}

base::Descriptor memory_file(const std::string& content) {
  base::Descriptor file(::memfd_create("secret", MFD_CLOEXEC));
  if (!file || !base::write_at(file, 0, std::as_bytes(std::span(content)))) return {};
  ::lseek(file.get(), 0, SEEK_SET);
  return file;
}

}  // namespace

StartedProcess start_process(const ProcessSpec& spec) {
  Prepared prepared;
  prepared.parent = ::getpid();
  const base::Descriptor none(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  int ends[2];
  if (!none || ::pipe2(ends, O_CLOEXEC) != 0) return failed("no pipe");
  StartedProcess started;
  started.output = base::Descriptor(ends[0]);
  const base::Descriptor write_end(ends[1]);
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  prepared.none = none.get();
  prepared.output = write_end.get();
  base::Descriptor network, secret;
  if (!spec.network_namespace.empty()) {
    network = base::Descriptor(::open(("/run/netns/" + spec.network_namespace).c_str(), O_RDONLY | O_CLOEXEC));
    if (!network) return failed("network namespace " + spec.network_namespace);
    prepared.network = network.get();
  }
  if (!spec.secret.empty()) {
    secret = memory_file(spec.secret);
    if (!secret) return failed("no file in memory");
    prepared.secret = secret.get();
  }
  prepared.has_cores = !spec.cores.empty();
  CPU_ZERO(&prepared.cores);
  for (const auto core : spec.cores) CPU_SET(core, &prepared.cores);
  std::vector<char*> arguments;
  std::string name = "troupe";
  arguments.push_back(name.data());
  for (const auto& argument : spec.arguments) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  prepared.program = spec.program.c_str();
  prepared.arguments = arguments.data();

  started.pid = ::fork();
  if (started.pid == 0) become(prepared);
  if (started.pid < 0) return failed("fork");
  started.process = base::Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, started.pid, 0)));
  if (started.process) return started;
  auto none_left = failed("pidfd_open");  // its end would not be noticed
  ::kill(started.pid, SIGKILL);
  ::waitpid(started.pid, nullptr, 0);
  return none_left;
}

}  // namespace troupe::cluster
