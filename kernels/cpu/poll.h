// Poll: what Backend::set_poll asks for, called between the pieces of a long op. Owner: a CpuBackend.
// Thread: the compute thread only, as thread 0 of the team. Invariant: cutting an op into pieces changes no bit of it.
#pragma once
#include <chrono>
#include <cstddef>
#include <functional>
#include <utility>

namespace troupe::kernels::cpu {

class Poll {
 public:
  // Pieces take about a tenth of a millisecond, so that a look at the clock costs nothing and a call is at most that late.
  static constexpr std::size_t kPieceProducts = std::size_t{16} << 20;  // multiply-adds
  static constexpr std::size_t kPieceValues = std::size_t{1} << 20;     // of weights, K or V, read for few rows
  static constexpr std::size_t kPieceElements = std::size_t{1} << 16;   // of rows

  void set(std::function<void()> call) {
    call_ = std::move(call);
    last_ = {};
  }
  bool wanted() const { return static_cast<bool>(call_); }

  /// After a piece of work.
  void after_piece() {
    elements_ = 0;
    if (Clock::now() - last_ < kInterval) return;
    call_();
    last_ = Clock::now();
  }
  /// After less than a piece: some elements of rows.
  void after_elements(std::size_t count) {
    elements_ += count;
    if (elements_ >= kPieceElements) after_piece();
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::microseconds kInterval{300};
  std::function<void()> call_;
  Clock::time_point last_{};
  std::size_t elements_ = 0;
};

}  // namespace troupe::kernels::cpu
