// Transport: how the ranks of a group exchange bytes within one epoch. A Port has an address before the epoch; the ranks meet, and each
// gets its Transport, which goes when the epoch ends. Rows of transport_table.cpp: loopback (one process), ucx.
// Thread: the shard's compute thread alone. Nothing blocks: transfers advance within progress().
// Invariant: messages from one rank to another arrive in order on each channel, with the lengths that both sides named.
#pragma once
#include "messages/error.h"
#include "messages/ids.h"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace troupe::collective {

/// A peer is gone, or broke the protocol: nothing of this epoch can go on.
struct PeerLost : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// One message on its way. Stays where it is, with its bytes, until `done` or until the transport has ended.
struct Transfer {
  bool done = true;
  std::chrono::steady_clock::time_point done_at;  // as progress() noticed
  Transfer() = default;
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;
};

/// Independent orders of messages between two ranks: one a reduce that may be under way, since their second steps come as they come.
enum class Channel : std::uint8_t { kRows, kTokens, kFirstReduce /* and the others behind it */ };
inline constexpr std::size_t kReduceChannels = 4, kChannels = 2 + kReduceChannels;
constexpr Channel reduce_channel(std::size_t reduce) {
  return static_cast<Channel>(static_cast<std::size_t>(Channel::kFirstReduce) + reduce);
}

class Transport {
 public:
  virtual ~Transport() = default;
  virtual std::size_t rank() const = 0;
  virtual std::size_t ranks() const = 0;
  /// `bytes` may be empty. Throws PeerLost.
  virtual void send(std::size_t peer, Channel channel, std::span<const std::byte> bytes, Transfer& transfer) = 0;
  virtual void receive(std::size_t peer, Channel channel, std::span<std::byte> bytes, Transfer& transfer) = 0;
  /// Advances all transfers and notes those that are done. Throws PeerLost.
  virtual void progress() = 0;
  /// All that was sent and is done needs no more progress() to arrive. False: ask again behind the next progress().
  virtual bool left() = 0;
};

/// What the ranks of an epoch know of each other before they meet.
struct Meeting {
  GroupEpoch epoch;
  std::string token;                   // random bytes; a peer that shows another one is refused
  std::vector<std::string> addresses;  // of all ports, by rank
  std::size_t rank = 0;
};

class Port {
 public:
  virtual ~Port() = default;
  /// Opaque bytes, for the meeting of one epoch.
  virtual std::string address() const = 0;
  /// Returns when all ranks have shown the token. Gives up with an Error when `abort` is set or a peer is refused or gone. Once.
  virtual Result<std::unique_ptr<Transport>> meet(const Meeting& meeting, const std::atomic<bool>& abort) = 0;
};

class LoopbackHub;
struct TransportSpec {
  std::string name = "loopback";     // row of the transport table
  std::string interface;             // network interface of the data plane; empty: this host alone
  std::shared_ptr<LoopbackHub> hub;  // of loopback: where the ranks of one process find each other
};

}  // namespace troupe::collective
