// Collective: what the ranks of a group compute together within one epoch: sums of addends over the tensor ranks of a stage, slices
// gathered at one of them, rows sent on to the next stage, ids told to all. Owns the transport and all buffers that travel.
// Thread: the shard's compute thread. Every wait polls the abort flag.
// Invariants: all ranks make the same calls in the same order. Every addend passes the codec, the rank's own too, and parts are added in
// rank order: so all ranks hold the same bits, whoever owns what. With more than two ranks the sum is encoded once more, and its owner
// uses the decoded value, too (two-step all-reduce: Flash Communication, arXiv 2412.04964).
#pragma once
#include "kernels/backend.h"
#include "runtime/base/shard_place.h"
#include "runtime/collective/transport.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <vector>

namespace troupe::collective {

/// The abort flag was seen within a wait.
struct Interrupted : std::runtime_error {
  Interrupted() : std::runtime_error("interrupted") {}
};

struct CollectiveOptions {
  base::ShardPlace place;
  kernels::WireFormat format = kernels::WireFormat::kBf16;
  /// A waiting rank spins so long, then sleeps for moments: 0 where threads share cores.
  unsigned spin_us = 100;
};

/// Whether a reduce takes up what the codec lost of the rows of the one before (error feedback: Seide et al., Interspeech 2014). Each
/// rank adds the loss of its addend to its next addend, and who rounds a sum adds its loss to the next sum, so that a residual stream lacks
/// what the last addends lost, not what all layers did. Only codecs with scales carry; fp32 and bf16 have next to nothing to carry.
enum class Carry : std::uint8_t {
  kNothing,
  kLoss,  // of the last reduce of this number, which had the same rows
};

/// When a reduce was under way on this rank.
struct WireSpan {
  std::chrono::steady_clock::time_point begin, end;  // first byte offered, last byte arrived
  std::size_t bytes = 0;                             // received
};
/// Of a step, since take_times().
struct WireTimes {
  std::chrono::nanoseconds waited{0};          // inside all calls that wait
  std::chrono::nanoseconds reduces_waited{0};  // of it, for reduces
  std::vector<WireSpan> spans;                 // one a reduce of several ranks, in order of their starts
};

class Collective {
 public:
  Collective(std::unique_ptr<Transport> transport, kernels::Backend& backend, CollectiveOptions options, const std::atomic<bool>& abort);
  ~Collective();  // the transport goes before the bytes that travel
  const CollectiveOptions& options() const;

  /// Reduces that may be under way at once.
  static constexpr std::size_t kReduces = kReduceChannels;
  /// Encodes the addend, overwrites it and begins to send it. `reduce` < kReduces must not be under way. No rows: the ranks only meet. With
  /// one tensor rank nothing is sent; the addend still passes the codec. Waits, and throws as finish_reduce() does, only while bytes of the
  /// last reduce of this number have not left.
  void start_reduce(std::size_t reduce, kernels::Rows addend, Carry carry = Carry::kNothing);
  /// Waits; y = sum over ranks, or y += sum by one addition. Throws Interrupted, PeerLost.
  void finish_reduce(std::size_t reduce, kernels::Rows y, kernels::Output output);
  /// Advances what is under way; for Backend::set_poll. Does not throw: a lost peer shows at the next call that may. It never calls the
  /// backend: with more than two ranks, sums are computed and sent in start_reduce() and in waits.
  void poll() noexcept;

  /// Tensor rank 0 of the stage gets the columns of all tensor ranks side by side, exact fp32: widths[t] of rank t, sum = all.width.
  /// On the other ranks it does not wait, and `all` is not used.
  void gather_slices(kernels::Rows mine, std::span<const std::size_t> widths, kernels::Rows all);
  /// From stage to stage, to and from the rank of the same tensor rank. fp32 where the format is fp32, else bf16. Sending does not wait.
  void send_rows(kernels::Rows rows);
  void receive_rows(kernels::Rows rows);
  /// Ids of one step, from the sampling rank to all others. Sending does not wait. All sides know how many.
  void send_tokens(std::span<const std::uint32_t> tokens);
  void receive_tokens(std::span<std::uint32_t> tokens);
  /// Bytes from rank 0 to all others of the group, for agreements outside of steps. Waits.
  void broadcast(std::span<std::byte> bytes);

  /// Waits until all that was sent has been taken over by the transport, but for ids: others may want them only in a later step. At the
  /// end of a step. Throws as finish_reduce() does.
  void finish_sends();
  /// Advances what the transport has taken over. False: ask again soon, since others wait for it and nobody else advances it. To be sure
  /// of an end the others must advance theirs, too: so a rank asks while it has nothing to do, and never waits for it.
  bool settle() noexcept;
  /// Of the reduces from now on; none may be under way. All ranks at the same point.
  void set_format(kernels::WireFormat format);

  WireTimes take_times();

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace troupe::collective
