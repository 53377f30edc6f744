// RequestSession: one live request, from SubmitRequest to exactly one RequestFinished (messages/request.capnp, admission.capnp).
// Renders and tokenizes, asks the router, admits at the scheduler, detokenizes, matches stop strings, keeps the deadline; after the loss
// of its scheduler it admits prompt + tokens so far again, within a retry budget. Spawned for and monitored by the gateway's actor.
// Invariant: it quits only behind its terminal event, or where nobody wants one (client or gateway gone).
#pragma once
#include "actors/actor_context.h"
#include "actors/replica_facts.h"
#include "actors/session_metrics.h"
#include "runtime/text/chat_template.h"
#include "runtime/text/tokenizer.h"

#include <caf/actor.hpp>
#include <caf/actor_system.hpp>

#include <chrono>
#include <cstdint>
#include <memory>

namespace troupe::actors {

struct RequestSessionDependencies {
  std::shared_ptr<const ActorContext> context;
  ReplicaFacts facts;
  std::shared_ptr<const text::Tokenizer> tokenizer;
  std::shared_ptr<const text::ChatTemplate> chat_template;
  std::shared_ptr<SessionMetrics> metrics;
  std::uint32_t context_tokens = 0;  // of the replica; 0 = left to the scheduler
  std::uint32_t retry_budget = 3;
  std::chrono::milliseconds first_wait{5'000};    // for a replica that is restarting, before anything was admitted
  std::chrono::milliseconds resume_wait{60'000};  // likewise for a stream under way
};
caf::actor spawn_request_session(caf::actor_system& system, std::shared_ptr<const RequestSessionDependencies> dependencies,
                                 const caf::actor& gateway);

}  // namespace troupe::actors
