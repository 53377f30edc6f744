#include "actors/wire/cache.h"

#include "actors/wire/common.h"

#include <algorithm>

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
    builder.setMoreFollow(leased.more_follow);
  });
}
kv::BlocksLeased decode(messages::BlocksLeased::Reader leased) {
  return {GroupEpoch{leased.getEpoch()}, LeaseId{leased.getLease()}, decode_ranges(leased.getRanges()), leased.getEvictable(),
          leased.getMoreFollow()};
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
  });
}
kv::ReleaseBlocks decode(messages::ReleaseBlocks::Reader release) {
  return {GroupEpoch{release.getEpoch()}, to_vector<LockId>(release.getLocks()), decode_ranges(release.getLeased())};
}

Message<messages::LoadFinished> encode(const kv::LoadFinished& finished) {
  return Message<messages::LoadFinished>::build([&](messages::LoadFinished::Builder builder) {
    builder.setEpoch(finished.epoch.value);
    builder.setLock(finished.lock.value);
    write(finished.failed, builder.initFailed(static_cast<unsigned>(finished.failed.size())));
  });
}
kv::LoadFinished decode(messages::LoadFinished::Reader finished) {
  return {GroupEpoch{finished.getEpoch()}, LockId{finished.getLock()}, decode_hashes(finished.getFailed())};
}

Message<messages::WriteDownWanted> encode(const kv::WriteDownWanted& wanted) {
  return Message<messages::WriteDownWanted>::build(
      [&](messages::WriteDownWanted::Builder builder) {
        const auto count = static_cast<unsigned>(wanted.blocks.size());
        builder.setEpoch(wanted.epoch.value);
        auto blocks = builder.initBlocks(count);
        auto keys = builder.initKeys(count);
        auto parents = builder.initParents(count);
        for (unsigned i = 0; i < count; ++i) {
          blocks.set(i, wanted.blocks[i].source);
          write(wanted.blocks[i].key, keys[i]);
          write(wanted.blocks[i].parent, parents[i]);
        }
        builder.setSoon(wanted.soon);
        builder.setTier(wanted.tier);
      },
      32 + static_cast<unsigned>(5 * wanted.blocks.size()));
}
kv::WriteDownWanted decode(messages::WriteDownWanted::Reader wanted) {
  kv::WriteDownWanted out;
  out.epoch = GroupEpoch{wanted.getEpoch()};
  const auto blocks = wanted.getBlocks();
  const auto keys = wanted.getKeys(), parents = wanted.getParents();
  const unsigned count = std::min({blocks.size(), keys.size(), parents.size()});
  out.blocks.reserve(count);
  for (unsigned i = 0; i < count; ++i) out.blocks.push_back({decode(keys[i]), decode(parents[i]), blocks[i]});
  out.soon = wanted.getSoon();
  out.tier = wanted.getTier();
  return out;
}

Message<messages::WrittenDown> encode(const kv::WrittenDown& written) {
  return Message<messages::WrittenDown>::build([&](messages::WrittenDown::Builder builder) {
    builder.setEpoch(written.epoch.value);
    write(written.keys, builder.initKeys(static_cast<unsigned>(written.keys.size())));
    write(written.failed, builder.initFailed(static_cast<unsigned>(written.failed.size())));
  });
}
kv::WrittenDown decode(messages::WrittenDown::Reader written) {
  return {GroupEpoch{written.getEpoch()}, decode_hashes(written.getKeys()), decode_hashes(written.getFailed())};
}

Message<messages::ReadBlockEvents> encode(const kv::ReadBlockEvents& read) {
  return Message<messages::ReadBlockEvents>::build([&](messages::ReadBlockEvents::Builder builder) {
    builder.setReader(read.reader);
    builder.setQuery(read.query);
    builder.setIncarnation(read.incarnation);
    builder.setAfter(read.after);
    builder.setTokens(read.tokens);
  });
}
kv::ReadBlockEvents decode(messages::ReadBlockEvents::Reader read) {
  return {read.getReader(), read.getQuery(), read.getIncarnation(), read.getAfter(), read.getTokens()};
}

Message<messages::BlockEvents> encode(const kv::BlockEvents& events) {
  return Message<messages::BlockEvents>::build([&](messages::BlockEvents::Builder builder) {
    builder.setReplica(events.replica.value);
    builder.setIncarnation(events.incarnation);
    builder.setQuery(events.query);
    builder.setFirst(events.first);
    builder.setSnapshot(events.snapshot);
    builder.setCleared(events.cleared);
    builder.setMore(events.more);
    auto changes = builder.initChanges(static_cast<unsigned>(events.changes.size()));
    for (unsigned i = 0; i < changes.size(); ++i) {
      const kv::BlockChange& change = events.changes[i];
      changes[i].setKeyHigh(change.key.high);
      changes[i].setKeyLow(change.key.low);
      changes[i].setParentHigh(change.parent.high);
      changes[i].setParentLow(change.parent.low);
      changes[i].setTier(static_cast<messages::Tier>(change.tier));
      changes[i].setStored(change.kind == kv::BlockChange::Kind::kStored);
      changes[i].setCleared(change.kind == kv::BlockChange::Kind::kCleared);
    }
    if (events.tokens.empty()) return;
    auto tokens = builder.initTokens(static_cast<unsigned>(events.tokens.size()));
    for (unsigned i = 0; i < tokens.size(); ++i) write_list(events.tokens[i], [&](unsigned n) { return tokens.init(i, n); });
  });
}
kv::BlockEvents decode(messages::BlockEvents::Reader events) {
  using Kind = kv::BlockChange::Kind;
  kv::BlockEvents out;
  out.replica = ReplicaId{events.getReplica()};
  out.incarnation = events.getIncarnation();
  out.query = events.getQuery();
  out.first = events.getFirst();
  out.snapshot = events.getSnapshot();
  out.cleared = events.getCleared();
  out.more = events.getMore();
  for (auto change : events.getChanges())
    out.changes.push_back({change.getCleared()  ? Kind::kCleared
                           : change.getStored() ? Kind::kStored
                                                : Kind::kRemoved,
                           static_cast<Tier>(change.getTier()),
                           {change.getKeyHigh(), change.getKeyLow()},
                           {change.getParentHigh(), change.getParentLow()}});
  for (auto list : events.getTokens()) out.tokens.push_back(to_vector<TokenId>(list));
  return out;
}

std::vector<Message<messages::InventoryReported>> encode_inventory(GroupEpoch epoch, std::uint16_t rank, Tier tier,
                                                                   std::span<const kv::InventoryEntry> entries,
                                                                   std::size_t entries_a_page) {
  const std::size_t count = std::max<std::size_t>(1, (entries.size() + entries_a_page - 1) / entries_a_page);
  std::vector<Message<messages::InventoryReported>> pages;
  for (std::size_t index = 0; index < count; ++index) {
    const auto part = entries.subspan(index * entries_a_page, std::min(entries_a_page, entries.size() - index * entries_a_page));
    pages.push_back(Message<messages::InventoryReported>::build(
        [&](messages::InventoryReported::Builder builder) {
          builder.setEpoch(epoch.value);
          builder.setRank(rank);
          builder.setTier(static_cast<messages::Tier>(tier));
          builder.initPage().setIndex(static_cast<std::uint32_t>(index));
          builder.getPage().setCount(static_cast<std::uint32_t>(count));
          auto list = builder.initEntries(static_cast<unsigned>(part.size()));
          for (unsigned i = 0; i < list.size(); ++i) {
            list[i].setKeyHigh(part[i].key.high);
            list[i].setKeyLow(part[i].key.low);
            list[i].setBlock(part[i].block);
            list[i].setAge(part[i].age_s);
          }
        },
        32 + static_cast<unsigned>(3 * part.size())));
  }
  return pages;
}
kv::InventoryReported decode(messages::InventoryReported::Reader page) {
  kv::InventoryReported out;
  out.epoch = GroupEpoch{page.getEpoch()};
  out.rank = page.getRank();
  out.tier = static_cast<Tier>(page.getTier());
  out.page = page.getPage().getIndex();
  out.pages = page.getPage().getCount();
  out.entries.reserve(page.getEntries().size());
  for (auto entry : page.getEntries()) out.entries.push_back({{entry.getKeyHigh(), entry.getKeyLow()}, entry.getBlock(), entry.getAge()});
  return out;
}

Message<messages::ReportInventory> report_inventory(Tier tier, Incarnation incarnation) {
  return Message<messages::ReportInventory>::build([&](messages::ReportInventory::Builder builder) {
    builder.setTier(static_cast<messages::Tier>(tier));
    builder.setIncarnation(incarnation);
  });
}

}  // namespace troupe::actors::wire
