// RequestSession <-> Scheduler, and the scheduler's load <-> messages/admission.capnp. Pure functions; any thread.
#pragma once
#include "messages/admission.capnp.h"
#include "messages/message.h"
#include "runtime/schedule/admission.h"

#include <optional>
#include <vector>

namespace troupe::actors::wire {

/// An admission as it travels: the first page and the AppendPrompt pages behind it, each <= 256 KiB.
struct AdmissionPages {
  Message<messages::AdmitSequence> first;
  std::vector<Message<messages::AppendPrompt>> rest;
};
/// `page_tokens`: prompt tokens in a page, a multiple of kBlockTokens.
inline constexpr std::uint32_t kPageTokens = 48 * 1024;
AdmissionPages encode(const schedule::AdmitSequence& admit, std::uint32_t page_tokens = kPageTokens);

/// The first page: what is still missing of the prompt comes in AppendPrompt.
schedule::AdmitSequence decode(messages::AdmitSequence::Reader admit);
/// Adds a page; false if it does not continue what is there.
bool append_page(schedule::AdmitSequence& admit, messages::AppendPrompt::Reader page);

Message<messages::SequenceAdmitted> encode(const schedule::SequenceAdmitted& admitted);
schedule::SequenceAdmitted decode(messages::SequenceAdmitted::Reader admitted);
Message<messages::AdmissionRefused> encode(const schedule::AdmissionRefused& refused);
schedule::AdmissionRefused decode(messages::AdmissionRefused::Reader refused);
Message<messages::AbortSequence> encode(const schedule::AbortSequence& abort);
schedule::AbortSequence decode(messages::AbortSequence::Reader abort);
Message<messages::TokensGenerated> encode(const schedule::TokensGenerated& tokens);
schedule::TokensGenerated decode(messages::TokensGenerated::Reader tokens);
Message<messages::PromptScored> encode(const schedule::PromptScored& scored);
schedule::PromptScored decode(messages::PromptScored::Reader scored);
Message<messages::ReplicaLoad> encode(const schedule::ReplicaLoad& load);
schedule::ReplicaLoad decode(messages::ReplicaLoad::Reader load);

}  // namespace troupe::actors::wire
