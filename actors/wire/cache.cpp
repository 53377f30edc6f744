#include "actors/wire/cache.h"

#include "actors/wire/common.h"

namespace troupe::actors::wire {

Message<messages::Match> encode(const kv::Match& match) {
  return Message<messages::Match>::build(
      [&](messages::Match::Builder builder) {
        builder.setEpoch(match.epoch.value);
        builder.setLock(match.lock.value);
        builder.setFirstBlock(match.first_block);
        write(match.keys, builder.initKeys(static_cast<unsigned>(match.keys.size())));
        write_list(match.tokens, [&](unsigned n) { return builder.initTokens(n); });
        builder.setMaxTokens(match.max_tokens);
        write(match.domain, builder.initDomain());
      },
      32 + static_cast<unsigned>(2 * match.keys.size() + match.tokens.size() / 2));
}
kv::Match decode(messages::Match::Reader match) {
  kv::Match out;
  out.epoch = GroupEpoch{match.getEpoch()};
  out.lock = LockId{match.getLock()};
  out.first_block = match.getFirstBlock();
  out.keys = decode_hashes(match.getKeys());
  out.tokens = to_vector<TokenId>(match.getTokens());
  out.max_tokens = match.getMaxTokens();
  out.domain = decode(match.getDomain());
  return out;
}

Message<messages::PrefixMatched> encode(const kv::PrefixMatched& matched) {
  return Message<messages::PrefixMatched>::build([&](messages::PrefixMatched::Builder builder) {
    builder.setEpoch(matched.epoch.value);
    builder.setLock(matched.lock.value);
    write_list(matched.device_blocks, [&](unsigned n) { return builder.initDeviceBlocks(n); });
    write_list(matched.host_blocks, [&](unsigned n) { return builder.initHostBlocks(n); });
    write_list(matched.disk_blocks, [&](unsigned n) { return builder.initDiskBlocks(n); });
    builder.setTailBlock(matched.tail_block);
    builder.setTailTokens(matched.tail_tokens);
    builder.setTailLock(matched.tail_lock.value);
    builder.setHostMicros(matched.host_us);
    builder.setDiskMicros(matched.disk_us);
    builder.setMiss(static_cast<messages::MissReason>(matched.miss));
    builder.setHostTier(matched.host_tier);
    builder.setDiskTier(matched.disk_tier);
  });
}
kv::PrefixMatched decode(messages::PrefixMatched::Reader matched) {
  kv::PrefixMatched out;
  out.epoch = GroupEpoch{matched.getEpoch()};
  out.lock = LockId{matched.getLock()};
  out.device_blocks = to_vector<BlockId>(matched.getDeviceBlocks());
  out.host_blocks = to_vector<BlockId>(matched.getHostBlocks());
  out.disk_blocks = to_vector<BlockId>(matched.getDiskBlocks());
  out.tail_block = matched.getTailBlock();
  out.tail_tokens = matched.getTailTokens();
  out.tail_lock = LockId{matched.getTailLock()};
  out.host_us = matched.getHostMicros();
  out.disk_us = matched.getDiskMicros();
  out.miss = static_cast<kv::MissReason>(matched.getMiss());
  out.host_tier = matched.getHostTier();
  out.disk_tier = matched.getDiskTier();
  return out;
}

Message<messages::LeaseBlocks> encode(const kv::LeaseBlocks& lease) {
  return Message<messages::LeaseBlocks>::build([&](messages::LeaseBlocks::Builder builder) {
    builder.setEpoch(lease.epoch.value);
    builder.setLease(lease.lease.value);
    builder.setBlocks(lease.blocks);
    builder.setContiguous(lease.contiguous);
  });
}
kv::LeaseBlocks decode(messages::LeaseBlocks::Reader lease) {
  return {GroupEpoch{lease.getEpoch()}, LeaseId{lease.getLease()}, lease.getBlocks(), lease.getContiguous()};
}

Message<messages::BlocksLeased> encode(const kv::BlocksLeased& leased) {
  return Message<messages::BlocksLeased>::build([&](messages::BlocksLeased::Builder builder) {
    builder.setEpoch(leased.epoch.value);
    builder.setLease(leased.lease.value);
    write(leased.ranges, builder.initRanges(static_cast<unsigned>(leased.ranges.size())));
    builder.setEvictable(leased.evictable);
  });
}
kv::BlocksLeased decode(messages::BlocksLeased::Reader leased) {
  return {GroupEpoch{leased.getEpoch()}, LeaseId{leased.getLease()}, decode_ranges(leased.getRanges()), leased.getEvictable()};
}

Message<messages::PublishBlocks> encode(const kv::PublishBlocks& publish) {
  return Message<messages::PublishBlocks>::build([&](messages::PublishBlocks::Builder builder) {
    builder.setEpoch(publish.epoch.value);
    builder.setLock(publish.lock.value);
    if (publish.parent) write(publish.parent, builder.initParent());
    write(publish.keys, builder.initKeys(static_cast<unsigned>(publish.keys.size())));
    write_list(publish.blocks, [&](unsigned n) { return builder.initBlocks(n); });
    builder.setTail(publish.tail);
    write_list(publish.tokens, [&](unsigned n) { return builder.initTokens(n); });
    write(publish.domain, builder.initDomain());
  });
}
kv::PublishBlocks decode(messages::PublishBlocks::Reader publish) {
  kv::PublishBlocks out;
  out.epoch = GroupEpoch{publish.getEpoch()};
  out.lock = LockId{publish.getLock()};
  out.parent = decode(publish.getParent());
  out.keys = decode_hashes(publish.getKeys());
  out.blocks = to_vector<BlockId>(publish.getBlocks());
  out.tail = publish.getTail();
  out.tokens = to_vector<TokenId>(publish.getTokens());
  out.domain = decode(publish.getDomain());
  return out;
}

Message<messages::ReleaseBlocks> encode(const kv::ReleaseBlocks& release) {
  return Message<messages::ReleaseBlocks>::build([&](messages::ReleaseBlocks::Builder builder) {
    builder.setEpoch(release.epoch.value);
    write_list(release.locks, [&](unsigned n) { return builder.initLocks(n); });
    write(release.leased, builder.initLeased(static_cast<unsigned>(release.leased.size())));
    builder.setFromBlock(release.from_block);
  });
}
kv::ReleaseBlocks decode(messages::ReleaseBlocks::Reader release) {
  return {GroupEpoch{release.getEpoch()}, to_vector<LockId>(release.getLocks()), decode_ranges(release.getLeased()),
          release.getFromBlock()};
}

}  // namespace troupe::actors::wire
