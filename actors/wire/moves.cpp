#include "actors/wire/moves.h"

#include "actors/wire/common.h"

namespace troupe::actors::wire {

void write(const plan::BlockMove& move, messages::BlockMove::Builder builder) {
  builder.setSource(move.source);
  builder.setTarget(move.target);
  builder.setTokens(move.tokens);
  builder.setFrom(static_cast<messages::Tier>(move.from));
  builder.setTo(static_cast<messages::Tier>(move.to));
}
plan::BlockMove decode(messages::BlockMove::Reader move) {
  return {move.getSource(), move.getTarget(), move.getTokens(), static_cast<Tier>(move.getFrom()), static_cast<Tier>(move.getTo())};
}

Message<messages::MoveBlocks> encode(const plan::MoveBlocks& moves) {
  return Message<messages::MoveBlocks>::build(
      [&](messages::MoveBlocks::Builder builder) {
        builder.setEpoch(moves.epoch.value);
        builder.setMoveSet(moves.move_set.value);
        auto list = builder.initMoves(static_cast<unsigned>(moves.moves.size()));
        for (unsigned i = 0; i < list.size(); ++i) write(moves.moves[i], list[i]);
        write(moves.keys, builder.initKeys(static_cast<unsigned>(moves.keys.size())));
        builder.setBackground(moves.background);
        builder.setHostTier(moves.host_tier);
        builder.setDiskTier(moves.disk_tier);
      },
      32 + static_cast<unsigned>(4 * moves.moves.size()));
}
plan::MoveBlocks decode(messages::MoveBlocks::Reader moves) {
  plan::MoveBlocks out;
  out.epoch = GroupEpoch{moves.getEpoch()};
  out.move_set = MoveSetId{moves.getMoveSet()};
  out.moves.reserve(moves.getMoves().size());
  for (auto move : moves.getMoves()) out.moves.push_back(decode(move));
  out.keys = decode_hashes(moves.getKeys());
  out.keys.resize(out.moves.size());
  out.background = moves.getBackground();
  out.host_tier = moves.getHostTier();
  out.disk_tier = moves.getDiskTier();
  return out;
}

Message<messages::MovesFinished> encode(const plan::MovesFinished& finished) {
  return Message<messages::MovesFinished>::build([&](messages::MovesFinished::Builder builder) {
    builder.setEpoch(finished.epoch.value);
    builder.setMoveSet(finished.move_set.value);
    builder.setRank(finished.rank);
    write_list(finished.failed, [&](unsigned n) { return builder.initFailed(n); });
    builder.setMicros(finished.micros);
    builder.setBytes(finished.bytes);
    if (finished.error) write(*finished.error, builder.initError());
  });
}
plan::MovesFinished decode(messages::MovesFinished::Reader finished) {
  plan::MovesFinished out;
  out.epoch = GroupEpoch{finished.getEpoch()};
  out.move_set = MoveSetId{finished.getMoveSet()};
  out.rank = finished.getRank();
  out.failed = to_vector<std::uint32_t>(finished.getFailed());
  out.micros = finished.getMicros();
  out.bytes = finished.getBytes();
  if (finished.hasError()) out.error = decode(finished.getError());
  return out;
}

}  // namespace troupe::actors::wire
