// The tier protocol <-> messages/cache.capnp, and what stores report to tiers <-> messages/shard_control.capnp. Pure functions; any thread.
#pragma once
#include "messages/cache.capnp.h"
#include "messages/message.h"
#include "messages/shard_control.capnp.h"
#include "runtime/kv/tier_messages.h"

#include <span>
#include <vector>

namespace troupe::actors::wire {

Message<messages::Match> encode(const kv::Match& match);
kv::Match decode(messages::Match::Reader match);
Message<messages::PrefixMatched> encode(const kv::PrefixMatched& matched);
kv::PrefixMatched decode(messages::PrefixMatched::Reader matched);
Message<messages::LeaseBlocks> encode(const kv::LeaseBlocks& lease);
kv::LeaseBlocks decode(messages::LeaseBlocks::Reader lease);
Message<messages::BlocksLeased> encode(const kv::BlocksLeased& leased);
kv::BlocksLeased decode(messages::BlocksLeased::Reader leased);
Message<messages::PublishBlocks> encode(const kv::PublishBlocks& publish);
kv::PublishBlocks decode(messages::PublishBlocks::Reader publish);
Message<messages::ReleaseBlocks> encode(const kv::ReleaseBlocks& release);
kv::ReleaseBlocks decode(messages::ReleaseBlocks::Reader release);
Message<messages::LoadFinished> encode(const kv::LoadFinished& finished);
kv::LoadFinished decode(messages::LoadFinished::Reader finished);
Message<messages::WriteDownWanted> encode(const kv::WriteDownWanted& wanted);
/// Blocks up to the shortest of the lists, whatever came.
kv::WriteDownWanted decode(messages::WriteDownWanted::Reader wanted);
Message<messages::WrittenDown> encode(const kv::WrittenDown& written);
kv::WrittenDown decode(messages::WrittenDown::Reader written);

Message<messages::ReadBlockEvents> encode(const kv::ReadBlockEvents& read);
kv::ReadBlockEvents decode(messages::ReadBlockEvents::Reader read);
Message<messages::BlockEvents> encode(const kv::BlockEvents& events);
kv::BlockEvents decode(messages::BlockEvents::Reader events);

/// A rank's whole list as pages of at most messages::PAGE_BYTES; an empty one is one page.
std::vector<Message<messages::InventoryReported>> encode_inventory(GroupEpoch epoch, std::uint16_t rank, Tier tier,
                                                                   std::span<const kv::InventoryEntry> entries,
                                                                   std::size_t entries_a_page = 10'900);
kv::InventoryReported decode(messages::InventoryReported::Reader page);
Message<messages::ReportInventory> report_inventory(Tier tier, Incarnation incarnation);

}  // namespace troupe::actors::wire
