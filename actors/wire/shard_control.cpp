#include "actors/wire/shard_control.h"

#include "actors/wire/common.h"

namespace troupe::actors::wire {

Message<messages::LoadShard> encode(const LoadOrder& order) {
  const exec::ShardSpec& spec = order.shard;
  return Message<messages::LoadShard>::build([&](messages::LoadShard::Builder b) {
    b.setReplica(order.replica);
    b.setRank(spec.place.rank);
    b.setTensorRanks(spec.place.shape.tensor_ranks);
    b.setStages(spec.place.shape.stages);
    b.setModelPath(to_text(spec.model_path));
    write(order.model_content, b.initModelContent());
    b.setBackend("cpu");
    b.setTransport(to_text(spec.transport.name));
    b.setDataInterface(to_text(spec.transport.interface));
    b.setKvFormat(to_text(spec.kv_format));
    b.setActivations(to_text(spec.activations));
    b.setWeights(to_text(spec.weights));
    b.setDeviceBytes(spec.device_bytes);
    b.setHostBytes(spec.host_bytes);
    b.setDiskBytes(spec.disk_bytes);
    b.setCacheFolder(to_text(spec.cache_folder));
    b.setWatchdogMs(static_cast<std::uint32_t>(order.watchdog.count()));
    b.setIsa(to_text(spec.isa));
    b.setPin(spec.pin);
    b.setSpinMicros(spec.spin_us);
    b.setThreads(static_cast<std::uint16_t>(spec.threads));
    b.setTraceFile(to_text(spec.trace_file));
  });
}

LoadOrder decode(messages::LoadShard::Reader load) {
  LoadOrder order;
  order.replica = load.getReplica();
  order.model_content = decode(load.getModelContent());
  order.watchdog = std::chrono::milliseconds(load.getWatchdogMs());
  exec::ShardSpec& spec = order.shard;
  spec.place = {{load.getTensorRanks(), load.getStages()}, load.getRank()};
  spec.model_path = to_string(load.getModelPath());
  spec.transport.name = to_string(load.getTransport());
  spec.transport.interface = to_string(load.getDataInterface());
  spec.kv_format = to_string(load.getKvFormat());
  spec.activations = to_string(load.getActivations());
  spec.weights = to_string(load.getWeights());
  spec.device_bytes = load.getDeviceBytes();
  spec.host_bytes = load.getHostBytes();
  spec.disk_bytes = load.getDiskBytes();
  spec.cache_folder = to_string(load.getCacheFolder());
  spec.isa = to_string(load.getIsa());
  spec.pin = load.getPin();
  spec.spin_us = load.getSpinMicros();
  spec.threads = load.getThreads();
  spec.trace_file = to_string(load.getTraceFile());
  return order;
}

Message<messages::ShardLoaded> encode_loaded(std::uint16_t rank, const exec::ShardFacts& facts, const std::string& data_address) {
  return Message<messages::ShardLoaded>::build([&](messages::ShardLoaded::Builder b) {
    b.setRank(rank);
    write(facts.numerics, b.initNumerics());
    b.setDeviceBlocks(facts.device_blocks);
    b.setHostBlocks(facts.host_blocks);
    b.setDiskBlocks(facts.disk_blocks);
    b.setDataAddress(to_data(data_address));
    b.setModelContext(facts.context_tokens);
    b.setBlockBytes(facts.block_bytes);
    b.setKvBytes(facts.kv_bytes);
    b.setWeightBytes(facts.weight_bytes);
    b.setWeightsCached(facts.weights_cached);
    b.setDescription(to_text(facts.description));
  });
}

exec::ShardFacts decode(messages::ShardLoaded::Reader loaded) {
  exec::ShardFacts facts;
  facts.numerics = decode(loaded.getNumerics());
  facts.device_blocks = loaded.getDeviceBlocks();
  facts.host_blocks = loaded.getHostBlocks();
  facts.disk_blocks = loaded.getDiskBlocks();
  facts.context_tokens = loaded.getModelContext();
  facts.block_bytes = loaded.getBlockBytes();
  facts.kv_bytes = loaded.getKvBytes();
  facts.weight_bytes = loaded.getWeightBytes();
  facts.weights_cached = loaded.getWeightsCached();
  facts.description = to_string(loaded.getDescription());
  return facts;
}

Message<messages::ShardReady> encode(const ShardReadiness& ready) {
  return Message<messages::ShardReady>::build([&](messages::ShardReady::Builder b) {
    b.setEpoch(ready.epoch.value);
    b.setRank(ready.rank);
    b.setDiskReadMicros(ready.disk_read_us);
    b.setCodec(to_text(ready.facts.codec));
    write(ready.facts.numerics, b.initNumerics());
    write(ready.facts.speed, b.initSpeed());
    b.setHostBlocks(ready.host_blocks);
    b.setDiskBlocks(ready.disk_blocks);
  });
}

ShardReadiness decode(messages::ShardReady::Reader ready) {
  ShardReadiness out;
  out.epoch = GroupEpoch{ready.getEpoch()};
  out.rank = ready.getRank();
  out.facts = {to_string(ready.getCodec()), decode(ready.getNumerics()), decode(ready.getSpeed())};
  out.host_blocks = ready.getHostBlocks();
  out.disk_blocks = ready.getDiskBlocks();
  out.disk_read_us = ready.getDiskReadMicros();
  return out;
}

exec::EpochEntry decode(messages::EnterEpoch::Reader enter) {
  exec::EpochEntry entry;
  entry.epoch = GroupEpoch{enter.getEpoch()};
  entry.token = to_bytes(enter.getToken());
  for (const auto address : enter.getAddresses()) entry.addresses.push_back(to_bytes(address));
  entry.codec = to_string(enter.getCodec());
  return entry;
}

void write(const exec::GroupSpeed& speed, messages::GroupSpeed::Builder builder) {
  builder.setComputeNanos(speed.compute_ns);
  builder.setWireNanos(speed.wire_ns);
  builder.setReduceMicros(speed.reduce_us);
  builder.setReduces(speed.reduces);
  builder.setRowHidden(speed.row_hidden);
}

exec::GroupSpeed decode(messages::GroupSpeed::Reader speed) {
  return {speed.getComputeNanos(), speed.getWireNanos(), speed.getReduceMicros(), speed.getReduces(), speed.getRowHidden()};
}

}  // namespace troupe::actors::wire
