@0xc6b1f0a97d3e5214;
# Blocks on the move between the tiers of a replica: Scheduler or CacheTier → Shard, and back. In process with one rank; else by the
# middleman. No order against plans is needed: a source is final, and locked until the move has ended; a target is leased or being
# written, and no plan names it before. So moves begin when they arrive, beside the steps, on the rank's own I/O thread.
# A block exists in a tier only where all ranks have it: the issuer waits for all of them, and one failure is a miss on all.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("troupe::messages");
using C = import "common.capnp";

struct BlockMove {
  # 16 bytes inline. device→device is a copy and rides in a plan (plan.capnp).
  source @0 :C.BlockId;    # in tier `from`
  target @1 :C.BlockId;    # in tier `to`
  tokens @2 :UInt16;       # positions, 1…32
  from @3 :C.Tier;
  to @4 :C.Tier;
}

struct MoveBlocks {
  # Sender: Scheduler (loads to the device) or CacheTier (write-downs from the tier above; host and disk). Receiver: each Shard of the
  # epoch. Reply: MovesFinished of each rank, whatever becomes of the moves. Sender dies: the I/O ends, the report is dropped, written
  # blocks are found again by ReportInventory. A move that names an older incarnation of a tier than the rank has heard of fails.
  # An evicted disk block needs no message: its place is written over; ranks that disagree on a key after a crash make it a miss.
  # Size: 32 bytes a block; ≤256 moves.
  epoch @0 :C.GroupEpoch;
  moveSet @1 :C.MoveSetId;       # chosen by the sender, repeated in the reply
  moves @2 :List(BlockMove);     # whole blocks, none of them a copy
  keys @3 :List(C.BlockKey);     # one a move: what the source must hold, and the target then holds
  background @4 :Bool;           # write-down: behind all that a request waits for
  hostTier @5 :C.Incarnation;    # actor under whose locks the host blocks are; 0 = none named
  diskTier @6 :C.Incarnation;
}

struct MovesFinished {
  # Sender: each Shard, once a MoveBlocks. Receiver: its sender, which waits for all ranks. No reply. Any order between sets.
  # Issuer dead: dropped. Rank dead: the epoch ends; unfinished sets count as failed. Size: ~60 bytes + 4 a failure.
  epoch @0 :C.GroupEpoch;
  moveSet @1 :C.MoveSetId;
  rank @2 :UInt16;
  failed @3 :List(UInt32);       # indices of moves that failed here
  micros @4 :UInt32;             # µs of reading and writing, without the wait in the rank's queue
  bytes @5 :UInt64;              # moved on this rank
  error @6 :C.Error;             # of the first failure; null if none
}
