// RollCall: how a rank knows that all who answer are the ranks of its epoch, whatever carries the words. Each rank sends its hello to all
// others, and has met them when each has shown the epoch's token.
// Owned by a port while it meets; its thread. Bytes come from anybody: they are refused with what differs, and never trusted for a length.
#pragma once
#include "messages/error.h"
#include "runtime/collective/transport.h"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace troupe::collective {

class RollCall {
 public:
  /// `meeting` must outlive this; it names this rank's place among the addresses.
  explicit RollCall(const Meeting& meeting);
  /// The same bytes for all peers; at most kHelloBytes.
  const std::string& hello() const { return hello_; }
  static constexpr std::size_t kHelloBytes = 256;
  static constexpr std::size_t kTokenBytes = 128;  // at most

  /// Notes who it was, or says what is wrong with these bytes.
  Status answer(std::span<const std::byte> bytes);
  bool complete() const { return missing_ == 0; }
  /// The first rank that has not answered yet.
  std::size_t missing_rank() const;

 private:
  const Meeting& meeting_;
  std::string hello_;
  std::vector<bool> here_;
  std::size_t missing_;
};

/// What a meeting that was given up says.
Error meeting_aborted(const RollCall& call);
Error peer_gone(std::size_t rank);

}  // namespace troupe::collective
