#include "actors/group_facts.h"

#include "actors/wire/common.h"
#include "messages/error_reasons.h"

#include <algorithm>

namespace troupe::actors {
namespace {

template <class Ranks, class Field>
auto least(const Ranks& ranks, Field field) {
  auto value = field(ranks.front());
  for (const auto& rank : ranks) value = std::min(value, field(rank));
  return value;
}
template <class Ranks, class Field>
auto largest(const Ranks& ranks, Field field) {
  auto value = field(ranks.front());
  for (const auto& rank : ranks) value = std::max(value, field(rank));
  return value;
}

}  // namespace

void GroupFacts::loaded(std::uint16_t rank, exec::ShardFacts facts, std::string data_address) {
  ranks_.at(rank) = {std::move(facts), std::move(data_address), {}};
}

Status GroupFacts::agree() {
  const auto& first = ranks_.front().ready.facts;
  for (const Rank& rank : ranks_) {
    const auto& own = rank.ready.facts;
    if (own.codec == first.codec && own.numerics == first.numerics) continue;
    return make_error(ErrorClass::kInternal, ErrorReason::kBadConfig,
                      "rank " + std::to_string(rank.ready.rank) + " computes otherwise than rank 0 (codec " + own.codec + ", not " +
                          first.codec + "): all must run the same program on the same model file");
  }
  if (agreed_ && (first.numerics != numerics_ || first.codec != codec_))
    return make_error(ErrorClass::kInternal, ErrorReason::kBadConfig, "the ranks compute otherwise than in the epoch before");
  agreed_ = true;
  numerics_ = first.numerics;
  codec_ = first.codec;
  return ok_status();
}

exec::ShardFacts GroupFacts::of_group() const {
  exec::ShardFacts group = ranks_.front().facts;
  group.numerics = numerics_;
  group.codec = codec_;
  group.device_blocks = least(ranks_, [](const Rank& rank) { return rank.facts.device_blocks; });
  group.context_tokens = least(ranks_, [](const Rank& rank) { return rank.facts.context_tokens; });
  // A block is in a tier only where all ranks have it.
  group.host_blocks = least(ranks_, [](const Rank& rank) { return rank.ready.host_blocks; });
  group.disk_blocks = least(ranks_, [](const Rank& rank) { return rank.ready.disk_blocks; });
  group.block_bytes = group.kv_bytes = group.weight_bytes = 0;
  for (const Rank& rank : ranks_) {
    group.block_bytes += rank.facts.block_bytes;
    group.kv_bytes += rank.facts.kv_bytes;
    group.weight_bytes += rank.facts.weight_bytes;
    group.weights_cached = group.weights_cached && rank.facts.weights_cached;
  }
  return group;
}

void GroupFacts::write(messages::EnterEpoch::Builder enter) const {
  enter.setCodec(wire::to_text(codec_));
  enter.setDeviceBlocks(least(ranks_, [](const Rank& rank) { return rank.facts.device_blocks; }));
  enter.setHostBlocks(least(ranks_, [](const Rank& rank) { return rank.facts.host_blocks; }));
  enter.setDiskBlocks(least(ranks_, [](const Rank& rank) { return rank.facts.disk_blocks; }));
  auto addresses = enter.initAddresses(static_cast<unsigned>(ranks_.size()));
  for (unsigned i = 0; i < addresses.size(); ++i) addresses.set(i, wire::to_data(ranks_[i].address));
}

void GroupFacts::write(messages::GroupReady::Builder ready) const {
  const auto group = of_group();
  wire::write(group.numerics, ready.initNumerics());
  ready.setDeviceBlocks(group.device_blocks);
  ready.setHostBlocks(group.host_blocks);
  ready.setDiskBlocks(group.disk_blocks);
  ready.setContextTokens(group.context_tokens);
  ready.setBlockBytes(group.block_bytes);
  ready.setDiskReadMicros(largest(ranks_, [](const Rank& rank) { return rank.ready.disk_read_us; }));
  ready.setStages(shape_.stages);
  exec::GroupSpeed slowest;
  for (const Rank& rank : ranks_) {
    const auto& speed = rank.ready.facts.speed;
    slowest.compute_ns = std::max(slowest.compute_ns, speed.compute_ns);
    slowest.wire_ns = std::max(slowest.wire_ns, speed.wire_ns);
    slowest.reduce_us = std::max(slowest.reduce_us, speed.reduce_us);
    slowest.reduces = std::max(slowest.reduces, speed.reduces);
    slowest.row_hidden = std::max(slowest.row_hidden, speed.row_hidden);
  }
  wire::write(slowest, ready.initSpeed());
}

}  // namespace troupe::actors
