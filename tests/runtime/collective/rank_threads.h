// Ranks as threads of this test: each opens a port, all meet, each runs its part. What a part throws is thrown in the test's thread.
// Parts must not use Catch's macros (they are not thread-safe): they throw.
#pragma once
#include "runtime/collective/transport_table.h"

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace troupe::test {

inline void need(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error(what);
}

class RankThreads {
 public:
  RankThreads(collective::TransportSpec spec, std::size_t ranks);
  ~RankThreads() { abort = true; }

  /// Changes a rank's meeting before it meets; may be empty.
  using Change = std::function<void(collective::Meeting&)>;
  using Part = std::function<void(std::unique_ptr<collective::Transport>)>;
  /// Throws what the first failing part threw. A failed meeting is a std::runtime_error with the Error's text.
  void run(const Part& part, const Change& change = {});
  /// The same, and what each rank's failure said ("" = none) instead of a throw.
  std::vector<std::string> outcomes(const Part& part, const Change& change = {});

  std::atomic<bool> abort{false};
  const collective::TransportSpec& spec() const { return spec_; }

 private:
  std::vector<std::exception_ptr> all(const Part& part, const Change& change);
  collective::TransportSpec spec_;
  std::size_t ranks_;
};

}  // namespace troupe::test
