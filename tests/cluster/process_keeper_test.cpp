#include "cluster/process_keeper.h"
#include "tests/support/captured_log.h"

#include <catch2/catch.hpp>

#include <csignal>
#include <filesystem>
#include <mutex>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace std::chrono_literals;
using troupe::cluster::ProcessKeeper;
using troupe::cluster::ProcessSpec;
using troupe::test::CapturedLog;

namespace {

ProcessSpec shell(const std::string& script, std::uint64_t number = 1) {
  ProcessSpec spec;
  spec.program = "/bin/sh";
  spec.arguments = {"-c", script};
  spec.line_prefix = "[node] ";
  spec.number = number;
  return spec;
}

/// What on_exit was told, as "index number how;".
struct Exits {
  ProcessKeeper::OnExit note() {
    return [this](std::size_t index, std::uint64_t number, const std::string& how) {
      const std::lock_guard guard(mutex);
      text += std::to_string(index) + " " + std::to_string(number) + " " + how + ";";
    };
  }
  bool wait_for(const std::string& part) {
    for (int i = 0; i < 1000; ++i, std::this_thread::sleep_for(10ms)) {
      const std::lock_guard guard(mutex);
      if (text.find(part) != std::string::npos) return true;
    }
    return false;
  }
  std::mutex mutex;
  std::string text;
};

int pid_in(const CapturedLog& log) {
  const auto text = log.text();
  return std::stoi(text.substr(text.find("pid is ") + 7));
}
/// No process, and not one that nobody has asked about.
bool gone(int pid) { return ::kill(pid, 0) != 0; }

}  // namespace

TEST_CASE("lines of a child are passed on behind its name, long ones in pieces", "[keeper]") {
  CapturedLog log;
  Exits exits;
  ProcessKeeper keeper(exits.note());
  keeper.start(2, shell("echo one; echo two >&2; head -c 5000 /dev/zero | tr '\\0' x; exit 7", 9));
  CHECK(exits.wait_for("2 9 exit code 7;"));
  const auto text = log.text();
  CHECK(text.find("[node] one\n[node] two\n[node] xxxx") != std::string::npos);
  CHECK(text.find(std::string(2048, 'x') + "\n") != std::string::npos);
  CHECK(text.find(std::string(2049, 'x')) == std::string::npos);
}

TEST_CASE("a child gets its secret, its cores, and none of our files", "[keeper]") {
  CapturedLog log;
  Exits exits;
  ProcessKeeper keeper(exits.note());
  auto spec = shell("cat <&3; ls /proc/self/fd | tr '\\n' ' '; echo; grep Cpus_allowed_list /proc/self/status");
  spec.secret = "a key\n";
  cpu_set_t ours;
  sched_getaffinity(0, sizeof ours, &ours);
  std::uint16_t core = 0;
  while (!CPU_ISSET(core, &ours)) ++core;
  spec.cores = {core};
  keeper.start(0, spec);
  CHECK(exits.wait_for("exit code 0;"));
  CHECK(log.text().find("[node] a key\n") != std::string::npos);
  CHECK(log.text().find("[node] 0 1 2 3 4 \n") != std::string::npos);  // 4 is ls's own
  CHECK(log.text().find("Cpus_allowed_list:\t" + std::to_string(core) + "\n") != std::string::npos);
}

TEST_CASE("a second start kills what runs, also a stopped process", "[keeper]") {
  CapturedLog log;
  Exits exits;
  ProcessKeeper keeper(exits.note());
  keeper.start(0, shell("echo pid is $$; kill -STOP $$; echo never", 1));
  REQUIRE(log.wait_for("pid is "));
  keeper.start(0, shell("echo the next one", 2));
  CHECK(exits.wait_for("0 1 signal 9;"));
  CHECK(exits.wait_for("0 2 exit code 0;"));
  CHECK(log.text().find("never") == std::string::npos);
}

TEST_CASE("what cannot be started is told like an end", "[keeper]") {
  CapturedLog log;
  Exits exits;
  ProcessKeeper keeper(exits.note());
  auto spec = shell("true");
  spec.program = "/no/such/program";
  keeper.start(0, spec);
  CHECK(exits.wait_for("exit code 127;"));
  spec.network_namespace = "no-such-namespace";
  keeper.start(1, spec);
  CHECK(exits.wait_for("1 1 it cannot be started: network namespace no-such-namespace"));
}

TEST_CASE("no child outlives the keeper, willing or not", "[keeper]") {
  CapturedLog log;
  Exits exits;
  int deaf = 0;
  {
    ProcessKeeper keeper(exits.note(), 200ms);
    keeper.start(0, shell("trap '' TERM; echo pid is $$; while :; do sleep 0.05; done"));
    keeper.start(1, shell("trap 'echo ends; exit 0' TERM; echo ready; while :; do sleep 0.05; done"));
    REQUIRE(log.wait_for("pid is "));
    REQUIRE(log.wait_for("ready"));
    deaf = pid_in(log);
  }
  CHECK(gone(deaf));
  CHECK(exits.text.find("0 1 signal 9;") != std::string::npos);
  CHECK(exits.text.find("1 1 exit code 0;") != std::string::npos);
  CHECK(log.text().find("[node] ends\n") != std::string::npos);
}

TEST_CASE("children die with a keeper whose process is killed", "[keeper]") {
  CapturedLog log;
  const int parent = ::fork();
  if (parent == 0) {
    ProcessKeeper keeper([](std::size_t, std::uint64_t, const std::string&) {});
    keeper.start(0, shell("echo pid is $$; while :; do sleep 0.05; done"));
    for (;;) ::pause();
  }
  REQUIRE(log.wait_for("pid is "));
  const int child = pid_in(log);
  ::kill(parent, SIGKILL);
  ::waitpid(parent, nullptr, 0);
  bool dead = false;
  for (int i = 0; i < 1000 && !dead; ++i, std::this_thread::sleep_for(10ms)) {
    // An orphan's end is the business of whoever adopts it: a zombie is dead.
    dead = gone(child) || [&] {
      char state = 'Z';
      if (FILE* stat = std::fopen(("/proc/" + std::to_string(child) + "/stat").c_str(), "r")) {
        if (std::fscanf(stat, "%*d %*s %c", &state) != 1) state = 'Z';
        std::fclose(stat);
      }
      return state == 'Z';
    }();
  }
  CHECK(dead);
}
