#include "actors/request_session_actor.h"

#include "actors/request_session.h"
#include "actors/wire/admission.h"
#include "actors/wire/common.h"
#include "messages/error_reasons.h"

namespace troupe::actors {

RequestSession::RequestSession(caf::actor_config& config, std::shared_ptr<const RequestSessionDependencies> dependencies,
                               caf::actor gateway)
    : ActorBase(config, dependencies->context, "RequestSession"), parts_(std::move(dependencies)), gateway_(std::move(gateway)) {
  monitor(gateway_);
  set_down_handler([this](const caf::down_msg& down) { on_down(down.source); });
}

caf::behavior RequestSession::make_behavior() {
  return {
      [this](const Message<messages::TokensGenerated>& message) { on_tokens(wire::decode(*message)); },
      [this](const Message<messages::SubmitRequest>& message) { on_submit(*message); },
      [this](const Message<messages::ResponseFound>& message) { on_found(*message); },
      [this](const Message<messages::ResponseMissing>& message) {
        if (phase_ == Phase::kLookingUp) fail(wire::decode(message->getError()));
      },
      [this](SliceAtom) { on_slice(); },
      [this](const Message<messages::ReplicaChosen>& message) { on_chosen(*message); },
      [this](const Message<messages::ReplicaRefused>& message) {
        if (phase_ == Phase::kChoosing) on_refused(wire::decode(message->getError()));
      },
      [this](const Message<messages::SequenceAdmitted>& message) { on_admitted(*message); },
      [this](const Message<messages::AdmissionRefused>& message) { on_admission_refused(*message); },
      [this](const Message<messages::PromptScored>& message) {
        if (generation_ && phase_ != Phase::kFinishing) generation_->on_scored(wire::decode(*message));
      },
      [this](const Message<messages::GrantCredit>& message) { on_credit(message->getDeltas()); },
      [this](const Message<messages::Cancel>& message) {
        request_.request = RequestId{message->getRequest()};  // it may be the first to arrive
        on_cancel(message->getSilent());
      },
      [this](const Message<messages::ResponseStored>& message) { on_stored(*message); },
      [this](DeadlineAtom) {
        if (phase_ != Phase::kFinishing)
          fail(make_error(ErrorClass::kDeadlineExceeded, ErrorReason::kDeadline, "The request's deadline has passed."));
      },
      [this](RetryAtom, std::uint32_t number) {
        if (phase_ == Phase::kChoosing && number == question_) choose();
      },
      [this](ReplyAtom, std::uint32_t number) { on_overdue(number); },
  };
}

caf::actor spawn_request_session(caf::actor_system& system, std::shared_ptr<const RequestSessionDependencies> dependencies,
                                 const caf::actor& gateway) {
  return system.spawn<RequestSession>(std::move(dependencies), gateway);
}

}  // namespace troupe::actors
