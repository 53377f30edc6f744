// GroupFacts: what the ranks of a replica have told of themselves, and what follows for the group: the least of what each has, the sum
// over all, and what must be equal on all. Owned by the ReplicaSupervisor; its actor's thread.
// Invariant: codec and numerics never change once the first epoch has agreed on them; keys of cached blocks depend on it.
#pragma once
#include "actors/wire/shard_control.h"
#include "messages/supervision.capnp.h"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::actors {

class GroupFacts {
 public:
  GroupFacts(base::ParallelShape shape, std::string codec) : shape_(shape), codec_(std::move(codec)), ranks_(shape.ranks()) {}
  void loaded(std::uint16_t rank, exec::ShardFacts facts, std::string data_address);
  void left(std::uint16_t rank, std::string data_address) { ranks_.at(rank).address = std::move(data_address); }
  void ready(const wire::ShardReadiness& ready) { ranks_.at(ready.rank).ready = ready; }
  /// When all are ready: an Error where they do not agree, or not with the epochs before.
  Status agree();
  bool has_agreed() const { return agreed_; }

  /// Of the whole group, for the start report.
  exec::ShardFacts of_group() const;
  /// Epoch, token and scheduler are the caller's.
  void write(messages::EnterEpoch::Builder enter) const;
  /// Replica, epoch and shards are the caller's.
  void write(messages::GroupReady::Builder ready) const;

 private:
  struct Rank {
    exec::ShardFacts facts;
    std::string address;
    wire::ShardReadiness ready;
  };
  base::ParallelShape shape_;
  std::string codec_;  // for the coming epoch
  Hash128 numerics_;
  bool agreed_ = false;
  std::vector<Rank> ranks_;
};

}  // namespace troupe::actors
