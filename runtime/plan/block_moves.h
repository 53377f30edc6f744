// BlockMove, MoveBlocks and MovesFinished: how blocks travel between the tiers of a replica. Plain mirrors of messages/moves.capnp, which
// tells the protocol; actors/wire converts. Immutable once sent; any thread.
#pragma once
#include "messages/error.h"
#include "messages/ids.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace troupe::plan {

struct BlockMove {
  BlockId source = 0;
  BlockId target = 0;
  std::uint16_t tokens = 0;  // positions, 1...32
  Tier from = Tier::kDevice;
  Tier to = Tier::kDevice;
  friend bool operator==(const BlockMove&, const BlockMove&) = default;
};

struct MoveBlocks {
  GroupEpoch epoch;
  MoveSetId move_set;            // issuer's
  std::vector<BlockMove> moves;  // whole blocks between tiers
  std::vector<BlockKey> keys;    // one a move
  bool background = false;       // behind all that a request waits for
  Incarnation host_tier = 0, disk_tier = 0;
  friend bool operator==(const MoveBlocks&, const MoveBlocks&) = default;
};

/// Of one rank.
struct MovesFinished {
  GroupEpoch epoch;
  MoveSetId move_set;
  std::uint16_t rank = 0;
  std::vector<std::uint32_t> failed;  // indices of moves
  std::uint32_t micros = 0;           // reading and writing
  std::uint64_t bytes = 0;
  std::optional<Error> error;  // of the first failure
};

}  // namespace troupe::plan
