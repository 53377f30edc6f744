// ProcessKeeper: the rank processes below this one: starts them, passes on what they write to stderr, notices how they end, kills them.
// A child never outlives its keeper: it is asked to end, then killed; and if this process dies, the kernel kills it (PR_SET_PDEATHSIG,
// which follows the thread that forked: so one thread of the keeper forks them all and lives as long as it).
// Methods: any thread, never block, except the destructor. Invariant: at most one process runs under an index.
#pragma once
#include "runtime/base/descriptor.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace troupe::cluster {

/// Where a child finds ProcessSpec::secret.
inline constexpr int kSecretDescriptor = 3;

struct ProcessSpec {
  std::string program = "/proc/self/exe";
  std::vector<std::string> arguments;  // without the program's name
  std::string line_prefix;             // before each line that it writes to stderr or stdout
  std::string network_namespace;       // below /run/netns; empty: ours
  std::vector<std::uint16_t> cores;    // empty: ours
  std::string secret;                  // a file in memory that the child may read, open as kSecretDescriptor
  std::uint64_t number = 0;            // told to on_exit
};

class ProcessKeeper {
 public:
  /// `how`: "exit code 1", "signal 9". From the keeper's thread; must not block.
  using OnExit = std::function<void(std::size_t index, std::uint64_t number, const std::string& how)>;
  explicit ProcessKeeper(OnExit on_exit, std::chrono::milliseconds grace = std::chrono::milliseconds{3000});
  /// Ends all processes and waits for them, `grace` long at most before they are killed.
  ~ProcessKeeper();
  ProcessKeeper(const ProcessKeeper&) = delete;
  ProcessKeeper& operator=(const ProcessKeeper&) = delete;

  /// What runs under `index` is killed first.
  void start(std::size_t index, ProcessSpec spec);

 private:
  struct Child {
    int pid = 0;
    std::uint64_t number = 0;
    base::Descriptor process, output;  // readable at its end; what it writes
    std::string prefix, line;          // the last one, not yet whole
    std::optional<ProcessSpec> next;   // once this one is gone
    bool free() const { return pid == 0; }
  };
  void run();
  void take_commands();
  void look_at(Child& child, std::size_t index);
  void pass_on(Child& child, bool all);
  bool end_children(std::chrono::steady_clock::time_point deadline);
  void launch(std::size_t index, ProcessSpec spec);

  const OnExit on_exit_;
  const std::chrono::milliseconds grace_;
  base::Descriptor wake_;
  std::mutex mutex_;
  std::vector<std::pair<std::size_t, ProcessSpec>> commands_;  // the two are guarded by mutex_
  bool stop_ = false;
  std::vector<Child> children_;  // own thread only, by index
  std::thread thread_;
};

}  // namespace troupe::cluster
