// Second part of a request: a replica, and the admission at its scheduler; again after the loss of either.
#include "actors/request_session.h"
#include "actors/wire/admission.h"
#include "actors/wire/common.h"
#include "messages/error_reasons.h"
#include "runtime/base/hash.h"

namespace troupe::actors {
using std::chrono::milliseconds;

void RequestSession::choose() {
  phase_ = Phase::kChoosing;
  ++question_;
  const auto router = registry().find(Role::ROUTER);
  if (!router) return ask_again();
  tell(router, Message<messages::ChooseReplica>::build([&](messages::ChooseReplica::Builder choose) {
         choose.setRequest(request_.request.value);
         choose.setModel(wire::to_text(request_.model));
         choose.setPromptTokens(generation_->prompt_tokens());
         choose.setMaxTokens(request_.max_tokens);
         choose.setChoices(request_.choices);
         if (refused_once_) choose.initExcluded(1).set(0, replica_);
         if (numerics_) wire::write(*numerics_, choose.initNumericsWanted());
       }));
  delayed_send(this, kReplyTime, ReplyAtom::value, question_);
}

bool RequestSession::patient() { return left(waiting_since_ + (attempt_ > 0 ? parts_->resume_wait : parts_->first_wait)) > 0; }

void RequestSession::ask_again() {
  if (!patient())
    return fail(make_error(ErrorClass::kUnavailable, ErrorReason::kGroupLost, "The engine is restarting; retry shortly.", {}, {}, 1000));
  delayed_send(this, kAskAgain, RetryAtom::value, question_);
}

void RequestSession::on_chosen(messages::ReplicaChosen::Reader chosen) {
  if (phase_ != Phase::kChoosing) return;
  const auto scheduler = registry().resolve(chosen.getScheduler());
  if (!scheduler) return ask_again();
  replica_ = chosen.getReplica();
  const auto numerics = wire::decode(chosen.getNumerics());
  numerics_changed_ = numerics_changed_ || (numerics_ && *numerics_ != numerics);
  numerics_ = numerics;
  key_domain_ = wire::decode(chosen.getKeyDomain());
  if (!request_.cache_salt.empty()) key_domain_ = base::Hasher().add(key_domain_).add(request_.cache_salt).finish();
  scheduler_ = scheduler;
  monitor(scheduler_);
  phase_ = Phase::kAdmitting;
  for (auto& admission : generation_->admissions(attempt_, key_domain_)) {
    if (deadline_) admission.deadline_ms = static_cast<std::uint32_t>(std::max<std::int64_t>(1, left(*deadline_)));
    const auto pages = wire::encode(admission);
    tell(scheduler_, pages.first);
    for (const auto& page : pages.rest) tell(scheduler_, page);
  }
}

std::int64_t RequestSession::left(TimePoint until) { return std::chrono::duration_cast<milliseconds>(until - now()).count(); }

void RequestSession::on_refused(const Error& error) {
  const bool passing = error.reason == ErrorReason::kGroupLost || error.reason == ErrorReason::kLoading ||
                       (attempt_ > 0 && error.error_class == ErrorClass::kOverloaded);
  if (refused_once_ && refusal_)
    fail(*refusal_);  // of the scheduler, which said why
  else if (passing && patient())
    ask_again();
  else
    fail(error);
}

void RequestSession::on_admitted(messages::SequenceAdmitted::Reader admitted) {
  if (admitted.getAttempt() != attempt_ || phase_ != Phase::kAdmitting) return;
  phase_ = Phase::kGenerating;
  if (std::exchange(admitted_, true)) return;
  tell(gateway_, wire::request_admitted(request_.request, generation_->prompt_tokens(), admitted.getQueuedRequests()));
  deliver();
}

void RequestSession::on_admission_refused(messages::AdmissionRefused::Reader refused) {
  if (refused.getAttempt() != attempt_ || phase_ == Phase::kFinishing || !scheduler_) return;
  const auto error = wire::decode(refused.getError());
  if (attempt_ == 0) {
    if (error.error_class != ErrorClass::kOverloaded || refused_once_) return fail(error);
    refused_once_ = true;
    refusal_ = error;
    leave_scheduler();
    choose();
    return;
  }
  // A stream under way has nowhere else to go: all its choices are taken back and admitted again a little later.
  if (!patient()) return fail(error);
  // In order: with high priority it would overtake admissions of this attempt that are still on their way.
  tell(scheduler_, wire::encode(schedule::AbortSequence{request_.request, attempt_, {}}));
  leave_scheduler();
  ++attempt_;
  phase_ = Phase::kChoosing;
  ++question_;
  ask_again();
}

void RequestSession::leave_scheduler() {
  if (scheduler_) demonitor(scheduler_);
  scheduler_ = {};
}

void RequestSession::abort(std::vector<std::uint16_t> choices) {
  tell_first(scheduler_, wire::encode(schedule::AbortSequence{request_.request, attempt_, std::move(choices)}));
}

}  // namespace troupe::actors
