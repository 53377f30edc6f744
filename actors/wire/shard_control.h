// Plain structs of a rank's life <-> messages/shard_control.capnp. Pure functions; any thread; errors as in common.h.
#pragma once
#include "messages/message.h"
#include "messages/shard_control.capnp.h"
#include "runtime/exec/shard_engine.h"

#include <chrono>
#include <cstdint>
#include <string>

namespace troupe::actors::wire {

/// Plain form of LoadShard.
struct LoadOrder {
  std::uint32_t replica = 1;
  Hash128 model_content;  // 0: whatever it is
  std::chrono::milliseconds watchdog{0};
  exec::ShardSpec shard;  // without what only the shard's process knows: known_content, cache_in_background
};
Message<messages::LoadShard> encode(const LoadOrder& order);
LoadOrder decode(messages::LoadShard::Reader load);

Message<messages::ShardLoaded> encode_loaded(std::uint16_t rank, const exec::ShardFacts& facts, const std::string& data_address);
/// Without the address.
exec::ShardFacts decode(messages::ShardLoaded::Reader loaded);

/// Plain form of ShardReady.
struct ShardReadiness {
  GroupEpoch epoch;
  std::uint16_t rank = 0;
  exec::EpochFacts facts;
  std::uint32_t host_blocks = 0, disk_blocks = 0, disk_read_us = 0;
};
Message<messages::ShardReady> encode(const ShardReadiness& ready);
ShardReadiness decode(messages::ShardReady::Reader ready);

/// What the engine needs of it.
exec::EpochEntry decode(messages::EnterEpoch::Reader enter);

void write(const exec::GroupSpeed& speed, messages::GroupSpeed::Builder builder);
exec::GroupSpeed decode(messages::GroupSpeed::Reader speed);

}  // namespace troupe::actors::wire
