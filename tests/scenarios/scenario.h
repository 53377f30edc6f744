// Scenario: one .scn file, read and run line by line. README.md beside it tells the language.
#pragma once
#include "tests/runtime/schedule/replica_harness.h"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace troupe::schedule::test {

class Scenario {
 public:
  /// Throws std::runtime_error "file:line: what" at the first line that does not hold.
  static void run(const std::filesystem::path& file);

 private:
  using Words = std::vector<std::string>;
  void line(const Words& words);
  void options(const Words& words);
  void submit(const Words& words);
  void expect(const Words& words);
  void expect_plan(const Words& words);
  void expect_tokens(const Words& words);
  void expect_stats(const Words& words);
  std::string describe(const plan::ForwardPlan& plan);
  std::string name_of(SequenceSlot slot) const;
  ReplicaHarness& harness();
  RequestOutcome& outcome(const std::string& name);
  std::uint64_t number_of(const std::string& name);  // made on first use

  SchedulerOptions options_;
  std::unique_ptr<ReplicaHarness> harness_;
  std::vector<std::string> names_;              // of request 1, 2, ...
  std::map<std::uint32_t, std::string> slots_;  // as of the last plan described
  std::map<std::uint32_t, std::uint32_t> lengths_;
  std::size_t plans_expected_ = 0;
};

}  // namespace troupe::schedule::test
