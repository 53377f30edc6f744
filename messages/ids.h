// Names of things that travel in messages. Each id says in which scope it is valid; 0 is never a valid StrongId.
// Plain values: no owner, any thread.
#pragma once
#include <compare>
#include <cstdint>
#include <functional>

namespace troupe {

/// An integer that cannot be mixed up with another id. `id.value` is the number on the wire.
template <class Tag, class Number>
struct StrongId {
  Number value{};
  friend auto operator<=>(StrongId, StrongId) = default;
  explicit operator bool() const { return value != 0; }
};

using RequestId = StrongId<struct RequestIdTag, std::uint64_t>;        // cluster
using ReplicaId = StrongId<struct ReplicaIdTag, std::uint32_t>;        // cluster
using NodeId = StrongId<struct NodeIdTag, std::uint32_t>;              // cluster
using GroupEpoch = StrongId<struct GroupEpochTag, std::uint32_t>;      // replica; +1 for each new group of shards, from 1
using StepNumber = StrongId<struct StepNumberTag, std::uint64_t>;      // epoch; 1, 2, 3 ... without gaps
using SequenceSlot = StrongId<struct SequenceSlotTag, std::uint32_t>;  // epoch; dense, reused after a drop; 0 IS valid
using LockId = StrongId<struct LockIdTag, std::uint64_t>;              // replica; chosen by the scheduler
using LeaseId = StrongId<struct LeaseIdTag, std::uint64_t>;            // holder
using MoveSetId = StrongId<struct MoveSetIdTag, std::uint64_t>;        // issuer

// Bulk values: they index arrays and come in lists of thousands, so they stay plain numbers.
using TokenId = std::uint32_t;      // vocabulary of the model
using BlockId = std::uint32_t;      // tier of a replica, equal on all its ranks; 0 is valid
using Incarnation = std::uint64_t;  // actor or process; random, new at each start

inline constexpr std::uint32_t kNone32 = 0xffffffff;  // "no value" of an unsigned 32-bit field that may be 0
inline constexpr std::uint32_t kBlockTokens = 32;     // positions in a block, everywhere

/// First 128 bits of a SHA-256.
struct Hash128 {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  friend auto operator<=>(const Hash128&, const Hash128&) = default;
  explicit operator bool() const { return high != 0 || low != 0; }
};
using BlockKey = Hash128;  // chained over a block's token ids, its parent's key and the key domain

/// A run of blocks with consecutive ids, count >= 1.
struct BlockRange {
  BlockId first = 0;
  std::uint32_t count = 0;
  friend bool operator==(const BlockRange&, const BlockRange&) = default;
};

enum class Tier : std::uint16_t { kDevice, kHost, kDisk };

}  // namespace troupe

template <class Tag, class Number>
struct std::hash<troupe::StrongId<Tag, Number>> {
  std::size_t operator()(troupe::StrongId<Tag, Number> id) const { return std::hash<Number>{}(id.value); }
};
template <>
struct std::hash<troupe::Hash128> {
  std::size_t operator()(const troupe::Hash128& h) const { return static_cast<std::size_t>(h.high ^ h.low); }
};
