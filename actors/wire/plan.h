// ForwardPlan and ForwardResult <-> messages/plan.capnp. Pure functions; the plan is read on the compute thread, the result written there.
#pragma once
#include "messages/message.h"
#include "messages/plan.capnp.h"
#include "runtime/plan/forward_plan.h"

namespace troupe::actors::wire {

Message<messages::ForwardPlan> encode(const plan::ForwardPlan& plan);
plan::ForwardPlan decode(messages::ForwardPlan::Reader plan);
Message<messages::ForwardResult> encode(const plan::ForwardResult& result);
plan::ForwardResult decode(messages::ForwardResult::Reader result);

}  // namespace troupe::actors::wire
