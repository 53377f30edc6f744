// MoveBlocks and MovesFinished <-> messages/moves.capnp. Pure functions; any thread.
#pragma once
#include "messages/message.h"
#include "messages/moves.capnp.h"
#include "runtime/plan/block_moves.h"

namespace troupe::actors::wire {

void write(const plan::BlockMove& move, messages::BlockMove::Builder builder);
plan::BlockMove decode(messages::BlockMove::Reader move);

Message<messages::MoveBlocks> encode(const plan::MoveBlocks& moves);
/// Lists of one length, whatever came: what has no key gets a null one, which no store holds.
plan::MoveBlocks decode(messages::MoveBlocks::Reader moves);
Message<messages::MovesFinished> encode(const plan::MovesFinished& finished);
plan::MovesFinished decode(messages::MovesFinished::Reader finished);

}  // namespace troupe::actors::wire
