// The tier protocol <-> messages/cache.capnp. Pure functions; any thread.
#pragma once
#include "messages/cache.capnp.h"
#include "messages/message.h"
#include "runtime/kv/tier_messages.h"

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

}  // namespace troupe::actors::wire
