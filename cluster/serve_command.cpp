// See serve_command.h.
#include "cluster/serve_command.h"
#include "cluster/launch/cluster_check.h"
#include "cluster/node.h"
#include "cluster/start_report.h"
#include "messages/error_reasons.h"
#include "runtime/base/log.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace troupe::cluster {
namespace {

/// Used are some 25 and 3; more for a moment, while a rank starts, a log or a file of the disk is opened.
constexpr rlim_t kLeastOwnFiles = 40, kFilesOfRank = 4;

/// Each connection is an open file, and the usual limit of a shell is 1024 of them. Where they cannot be had, `connections` become fewer:
/// what the process itself needs, to start a rank again for example, no client shall take. An Error where nothing is left for them.
Status allow_open_files(std::uint64_t& connections, std::size_t ranks) {
  constexpr rlim_t kOwnFiles = 256;  // model, pipes, event loops
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return ok_status();
  const rlim_t wanted = connections + kOwnFiles;
  if (files.rlim_cur < wanted) {
    files.rlim_cur = std::min(wanted, files.rlim_max);
    setrlimit(RLIMIT_NOFILE, &files);
  }
  if (files.rlim_cur < wanted)
    base::log(base::LogLevel::kWarning, "few_open_files",
              "limit=" + std::to_string(files.rlim_cur) + " wanted=" + std::to_string(wanted) +
                  " remedy=" + base::log_value("raise the hard limit of open files (ulimit -Hn) or lower --max-connections"));
  const rlim_t least = kLeastOwnFiles + kFilesOfRank * ranks;
  if (files.rlim_cur <= least)
    return make_error(ErrorClass::kUnavailable, ErrorReason::kBadConfig,
                      "the limit of open files is " + std::to_string(files.rlim_cur) + ", and " + std::to_string(least) +
                          " are needed beside those of clients; raise it (ulimit -n)");
  connections = std::min<std::uint64_t>(connections, files.rlim_cur - least);
  return ok_status();
}

constexpr int kExitStuck = 3;
constexpr std::uint64_t kLeastEndMs = 5'000;  // for all else that is taken down

/// A step that ignores the abort flag would keep the process for ever. While a guard lives, the process ends after `ms` all the same; a
/// time in which the process was paused does not count.
class EndGuard {
 public:
  explicit EndGuard(std::uint64_t ms) : thread_([this, ms] { watch(ms); }) {}
  ~EndGuard() {
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }
  EndGuard(const EndGuard&) = delete;
  EndGuard& operator=(const EndGuard&) = delete;

 private:
  void watch(std::uint64_t ms) {
    constexpr std::uint64_t kNapMs = 50;
    std::unique_lock lock(mutex_);
    for (std::uint64_t passed = 0; passed < ms; passed += kNapMs)
      if (wake_.wait_for(lock, std::chrono::milliseconds(kNapMs), [this] { return done_; })) return;
    std::fputs("troupe: a step of the engine does not end; the process ends without it\n", stderr);
    std::_Exit(kExitStuck);
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  bool done_ = false;
  std::thread thread_;  // last: it uses the others
};

/// Said aloud: whoever sets them expects something of them.
void tell_options_without_use(const Options& options) {
  for (const char* name : {"codec", "remeasure", "overlap", "transport", "data-interface", "allow-default-route"})
    if (options.sources.contains(name))
      base::log(
          base::LogLevel::kWarning, "option_without_use",
          std::string("option=") + name + " reason=" + base::log_value("it is for several ranks (--tensor-parallel, --pipeline-parallel)"));
}

int serve(Options options, std::optional<ClusterPlan> plan) {
  StartReport report;
  if (const auto status = allow_open_files(options.max_connections, plan ? plan->ranks.size() : 1); !status) {
    report.line("troupe: " + status.error().client_text);
    return 1;
  }

  NodeEvents events;
  events.on_load_progress = [&](std::size_t done, std::size_t total) { report.progress(done, total); };
  events.on_ready = [&](const ReadyNode& ready) { report.ready(options, ready); };
  events.on_signal = [&](int signals) {
    if (signals == 1)
      report.line("stopping: running requests have " + std::to_string(options.grace_seconds) + " s to finish (again to stop at once)");
  };
  events.on_fatal = [&](const std::string& reason) { report.line("troupe: " + reason); };

  auto node = Node::make(options, events, true, {}, std::move(plan));
  if (!node) {
    report.line("troupe: " + node.error().client_text);
    return 1;
  }
  const int exit_code = (*node)->run();
  if (exit_code != 0) std::_Exit(exit_code);  // a compute thread may hang for ever: nothing can be taken down in order
  const EndGuard guard(kLeastEndMs + options.watchdog_ms);
  node->reset();
  return 0;
}

}  // namespace

int serve_cluster(const Options& options, const ClusterPlan& plan) {
  base::set_log_node(plan.gateway_node);
  return serve(options, plan);
}

int run_serve(const Options& options) {
  if (options.tensor_parallel * options.pipeline_parallel == 1) {
    tell_options_without_use(options);
    return serve(options, {});
  }
  const launch::CheckedCluster checked = launch::check_options(options, launch::this_host());
  if (!checked.faults.empty()) {
    std::fprintf(stderr, "troupe: %s\n", checked.faults.front().c_str());
    return 1;
  }
  for (const std::string& note : checked.notes) base::log(base::LogLevel::kWarning, "cluster_note", "note=" + base::log_value(note));
  return serve_cluster(options, checked.plan);
}

}  // namespace troupe::cluster
