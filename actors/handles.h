// Messages that carry an actor's handle, which is CAF's own and no field of a schema; beside them travels what a schema can say.
#pragma once
#include <caf/atom.hpp>

namespace troupe::actors {

/// ReplicaSupervisor -> Shard of another process: (IntroduceAtom, Message<ActorStarted>, handle). From now on the address finds the handle.
using IntroduceAtom = caf::atom_constant<caf::atom("introduce")>;
/// Door -> ReplicaSupervisor: (RankJoinedAtom, rank, incarnation of its process, handle of its shard).
using RankJoinedAtom = caf::atom_constant<caf::atom("rankjoined")>;
/// Who keeps the processes -> ReplicaSupervisor: (RankEndedAtom, rank, incarnation, how it ended).
using RankEndedAtom = caf::atom_constant<caf::atom("rankended")>;

}  // namespace troupe::actors
