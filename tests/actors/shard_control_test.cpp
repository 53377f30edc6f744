// What a rank is told, and what it tells, when it loads and enters an epoch comes back equal from its schema.
#include "actors/wire/common.h"
#include "actors/wire/shard_control.h"

#include <catch2/catch.hpp>

#include <string>
#include <vector>

using namespace troupe;
namespace wire = troupe::actors::wire;

TEST_CASE("a rank's life: loading and epochs") {
  const auto check_speed = [](const exec::GroupSpeed& got) {
    CHECK(got.compute_ns == 1.5);
    CHECK(got.wire_ns == 2.5);
    CHECK(got.reduce_us == 3.5);
    CHECK(got.reduces == 4);
    CHECK(got.row_hidden == 5);
  };
  wire::LoadOrder order;
  order.replica = 2;
  order.model_content = {3, 4};
  order.watchdog = std::chrono::milliseconds(5);
  exec::ShardSpec& spec = order.shard;
  spec.place = {{2, 3}, 5};
  spec.transport.name = "ucx";
  spec.transport.interface = "eth1";
  spec.model_path = "a.gguf";
  spec.weights = "int8-channel";
  spec.activations = "bf16";
  spec.kv_format = "fp16";
  spec.device_bytes = std::uint64_t{1} << 40;
  spec.host_bytes = 6;
  spec.disk_bytes = 7;
  spec.threads = 8;
  spec.pin = false;
  spec.spin_us = 9;
  spec.isa = "avx2";
  spec.cache_folder = "cache";
  spec.trace_file = "trace";
  const wire::LoadOrder got = wire::decode(*wire::encode(order));
  CHECK(got.replica == 2);
  CHECK(got.model_content == order.model_content);
  CHECK(got.watchdog == order.watchdog);
  CHECK(got.shard.place == spec.place);
  CHECK(got.shard.transport.name == "ucx");
  CHECK(got.shard.transport.interface == "eth1");
  CHECK(got.shard.model_path == "a.gguf");
  CHECK(got.shard.weights == "int8-channel");
  CHECK(got.shard.activations == "bf16");
  CHECK(got.shard.kv_format == "fp16");
  CHECK(got.shard.device_bytes == spec.device_bytes);
  CHECK(got.shard.host_bytes == 6);
  CHECK(got.shard.disk_bytes == 7);
  CHECK(got.shard.threads == 8);
  CHECK_FALSE(got.shard.pin);
  CHECK(got.shard.spin_us == 9);
  CHECK(got.shard.isa == "avx2");
  CHECK(got.shard.cache_folder == "cache");
  CHECK(got.shard.trace_file == "trace");

  exec::ShardFacts facts;
  facts.numerics = {1, 2};
  facts.device_blocks = 3;
  facts.host_blocks = 4;
  facts.disk_blocks = 5;
  facts.context_tokens = 6;
  facts.block_bytes = 7;
  facts.kv_bytes = 8;
  facts.weight_bytes = 9;
  facts.weights_cached = true;
  facts.description = "a model";
  const auto message = wire::encode_loaded(5, facts, std::string("\0x", 2));
  CHECK(message->getRank() == 5);
  CHECK(wire::to_bytes(message->getDataAddress()) == std::string("\0x", 2));
  const exec::ShardFacts loaded = wire::decode(*message);
  CHECK(loaded.numerics == facts.numerics);
  CHECK(std::vector{loaded.device_blocks, loaded.host_blocks, loaded.disk_blocks, loaded.context_tokens} ==
        std::vector<std::uint32_t>{3, 4, 5, 6});
  CHECK(loaded.block_bytes == 7);
  CHECK(loaded.kv_bytes == 8);
  CHECK(loaded.weight_bytes == 9);
  CHECK(loaded.weights_cached);
  CHECK(loaded.description == "a model");

  const wire::ShardReadiness ready{GroupEpoch{1}, 2, {"int8", {3, 4}, {1.5, 2.5, 3.5, 4, 5}}, 6, 7, 8};
  const wire::ShardReadiness is_ready = wire::decode(*wire::encode(ready));
  CHECK(is_ready.epoch == ready.epoch);
  CHECK(is_ready.rank == 2);
  CHECK(is_ready.facts.codec == "int8");
  CHECK(is_ready.facts.numerics == ready.facts.numerics);
  check_speed(is_ready.facts.speed);
  CHECK(std::vector{is_ready.host_blocks, is_ready.disk_blocks, is_ready.disk_read_us} == std::vector<std::uint32_t>{6, 7, 8});

  const auto enter = Message<messages::EnterEpoch>::build([](messages::EnterEpoch::Builder builder) {
    builder.setEpoch(9);
    builder.setToken(wire::to_data("token"));
    auto addresses = builder.initAddresses(2);
    addresses.set(0, wire::to_data("here"));
    addresses.set(1, wire::to_data("there"));
    builder.setCodec("auto");
  });
  const exec::EpochEntry entry = wire::decode(*enter);
  CHECK(entry.epoch == GroupEpoch{9});
  CHECK(entry.token == "token");
  CHECK(entry.addresses == std::vector<std::string>{"here", "there"});
  CHECK(entry.codec == "auto");
}
