#include "actors/request_session_actor.h"

#include "actors/actor_base.h"
#include "actors/timers.h"
#include "actors/wire/admission.h"
#include "actors/wire/common.h"
#include "actors/wire/request.h"
#include "actors/wire/session_store.h"
#include "messages/error_reasons.h"
#include "runtime/base/hash.h"
#include "runtime/session/context_limit.h"
#include "runtime/session/prompt_builder.h"

#include <optional>

namespace troupe::actors {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kAskAgain{100};    // a router or scheduler that is not there yet
constexpr milliseconds kReplyTime{2000};  // router, session store: after that they are asked once more, or done without

enum class Phase { kNew, kLookingUp, kTokenizing, kChoosing, kAdmitting, kGenerating, kFinishing };

class RequestSession final : public ActorBase {
 public:
  RequestSession(caf::actor_config& config, std::shared_ptr<const RequestSessionDependencies> dependencies, caf::actor gateway)
      : ActorBase(config, dependencies->context, "RequestSession"), parts_(std::move(dependencies)), gateway_(std::move(gateway)) {
    monitor(gateway_);
    set_down_handler([this](const caf::down_msg& down) { on_down(down.source); });
  }

  caf::behavior make_behavior() override {
    return {
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
        [this](const Message<messages::TokensGenerated>& message) { on_tokens(wire::decode(*message)); },
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

 private:
  // --- prompt ---

  void on_submit(messages::SubmitRequest::Reader submit) {
    if (phase_ != Phase::kNew) return;
    request_ = wire::decode(submit);
    credit_ = request_.credit;
    received_ = now() - milliseconds(request_.elapsed_ms);
    if (request_.deadline_ms > 0) {
      deadline_ = received_ + milliseconds(request_.deadline_ms);
      delayed_send(this, std::max(*deadline_ - now(), TimePoint::duration::zero()), DeadlineAtom::value);
    }
    if (request_.previous_response_id.empty()) {
      build_prompt();
    } else {
      phase_ = Phase::kLookingUp;
      look_up();
    }
  }

  void look_up() {
    parent_pages_ = {};
    tell(registry().find(Role::SESSION_STORE), Message<messages::LookUpResponse>::build([&](messages::LookUpResponse::Builder look_up) {
           look_up.setQuery(++question_);
           wire::write(request_.owner, look_up.initOwner());
           look_up.setId(wire::to_text(request_.previous_response_id));
           look_up.setConnection(request_.connection);
           look_up.setWantTokens(true);
           look_up.setWantRecord(true);
         }));
    delayed_send(this, kReplyTime, ReplyAtom::value, question_);
  }

  void on_found(messages::ResponseFound::Reader page) {
    if (phase_ != Phase::kLookingUp || page.getQuery() != question_) return;
    auto found = parent_pages_.add(page);
    if (!found) return;
    parent_ = session::ParentResponse{std::move(found->tokens), found->prompt_tokens, found->template_id, std::move(found->record)};
    build_prompt();
  }

  void build_prompt() {
    phase_ = Phase::kTokenizing;
    auto builder = session::PromptBuilder::make(request_, *parts_->chat_template, parts_->tokenizer, parent_ ? &*parent_ : nullptr);
    if (!builder) return fail(builder.error());
    builder_ = *std::move(builder);
    parent_.reset();
    send(this, SliceAtom::value);
  }

  void on_slice() {
    if (phase_ != Phase::kTokenizing) return;
    if (builder_->step()) {
      send(this, SliceAtom::value);  // others may have their turn between two slices
      return;
    }
    auto prompt = builder_->take_tokens();
    if (request_.endpoint == session::Endpoint::kTokenize) {
      phase_ = Phase::kFinishing;
      tell(gateway_, wire::request_tokenized(request_.request, prompt));
      quit();
      return;
    }
    const auto max_tokens = session::fit_context(prompt.size(), request_.max_tokens, parts_->context_tokens);
    if (!max_tokens) return fail(max_tokens.error());
    generation_.emplace(request_, parts_->tokenizer, std::move(prompt), *max_tokens);
    waiting_since_ = now();
    choose();
  }

  // --- replica and admission ---

  void choose() {
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

  void ask_again() { delayed_send(this, kAskAgain, RetryAtom::value, question_); }

  void on_chosen(messages::ReplicaChosen::Reader chosen) {
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

  std::int64_t left(TimePoint until) { return std::chrono::duration_cast<milliseconds>(until - now()).count(); }

  void on_refused(const Error& error) {
    const bool passing = error.reason == ErrorReason::kGroupLost || error.reason == ErrorReason::kLoading ||
                         (attempt_ > 0 && error.error_class == ErrorClass::kOverloaded);
    const auto patience = attempt_ > 0 ? parts_->resume_wait : parts_->first_wait;
    if (refused_once_ && refusal_)
      fail(*refusal_);  // of the scheduler, which said why
    else if (passing && now() - waiting_since_ < patience)
      ask_again();
    else
      fail(error);
  }

  void on_admitted(messages::SequenceAdmitted::Reader admitted) {
    if (admitted.getAttempt() != attempt_ || phase_ != Phase::kAdmitting) return;
    phase_ = Phase::kGenerating;
    if (std::exchange(admitted_, true)) return;
    tell(gateway_, wire::request_admitted(request_.request, generation_->prompt_tokens()));
    deliver();
  }

  void on_admission_refused(messages::AdmissionRefused::Reader refused) {
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
    if (now() - waiting_since_ >= parts_->resume_wait) return fail(error);
    // In order: with high priority it would overtake admissions of this attempt that are still on their way.
    tell(scheduler_, wire::encode(schedule::AbortSequence{request_.request, attempt_, {}}));
    leave_scheduler();
    ++attempt_;
    phase_ = Phase::kChoosing;
    ++question_;
    ask_again();
  }

  void leave_scheduler() {
    if (scheduler_) demonitor(scheduler_);
    scheduler_ = {};
  }

  void abort(std::vector<std::uint16_t> choices) {
    tell_first(scheduler_, wire::encode(schedule::AbortSequence{request_.request, attempt_, std::move(choices)}));
  }

  // --- tokens ---

  void on_tokens(const schedule::TokensGenerated& message) {
    if (!generation_ || message.attempt != attempt_ || (phase_ != Phase::kGenerating && phase_ != Phase::kAdmitting)) return;
    measure(message);
    if (generation_->on_tokens(message)) abort({message.choice});
    if (generation_->done())
      finish();
    else
      deliver();
  }

  void measure(const schedule::TokensGenerated& message) {
    if (message.tokens.empty()) return;
    const auto time = now();
    const auto seconds = [](TimePoint::duration d) { return std::chrono::duration<double>(d).count(); };
    if (!first_token_at_)
      parts_->metrics->first_token.observe(seconds(time - received_));
    else if (request_.choices == 1)
      parts_->metrics->inter_token.observe(seconds(time - last_token_at_) / static_cast<double>(message.tokens.size()));
    if (!first_token_at_) first_token_at_ = time;
    last_token_at_ = time;
  }

  /// One delta with all that is ready, if there is credit. Without streaming all waits for the end.
  void deliver() {
    const bool last = phase_ == Phase::kFinishing;
    if (!admitted_ || !generation_->has_pieces() || (!request_.stream && !last) || (credit_ == 0 && request_.stream)) return;
    if (credit_ > 0) --credit_;
    tell(gateway_, wire::token_delta(request_.request, deltas_++, generation_->take_pieces()));
  }

  void on_credit(std::uint32_t deltas) {
    credit_ += deltas;
    if (!generation_) return;
    deliver();
    end_if_ready();
  }

  // --- end ---

  /// All choices have ended: stores the response, then tells the one terminal event.
  void finish() {
    if (generation_->failure()) return fail(*generation_->failure());
    phase_ = Phase::kFinishing;
    leave_scheduler();
    deliver();
    if (request_.endpoint == session::Endpoint::kResponses && !request_.response_id.empty() && !cancelled_) store();
    end_if_ready();
  }

  void store() {
    session::StoredResponse response;
    response.id = request_.response_id;
    response.parent = request_.previous_response_id;
    response.owner = request_.owner;
    response.retention = request_.retention;
    response.connection = request_.connection;
    response.lane = request_.lane;
    response.model = request_.model;
    response.template_id = parts_->chat_template->id();
    response.key_domain = key_domain_;
    response.inherited = builder_->inherited();
    response.tokens = generation_->stored_tokens();
    response.tokens.erase(response.tokens.begin(), response.tokens.begin() + response.inherited);
    response.prompt_tokens = generation_->prompt_tokens();
    auto conversation = builder_->conversation();
    conversation.output = generation_->stored_text();
    response.record = session::to_record(conversation);
    ++question_;
    storing_ = true;
    for (auto& page : wire::encode(question_, response)) tell(registry().find(Role::SESSION_STORE), page);
    delayed_send(this, kReplyTime, ReplyAtom::value, question_);
  }

  void on_stored(messages::ResponseStored::Reader stored) {
    if (!storing_ || stored.getQuery() != question_) return;
    if (stored.hasError()) log(base::LogLevel::kWarning, "response_not_stored", wire::to_string(stored.getError().getClientText()));
    storing_ = false;
    end_if_ready();
  }

  void on_overdue(std::uint32_t number) {
    if (number != question_) return;
    if (phase_ == Phase::kLookingUp) {
      if (std::exchange(asked_twice_, true))
        fail(make_error(ErrorClass::kUnavailable, ErrorReason::kActorDied, "The session store does not answer; retry shortly.",
                        "previous_response_id", {}, 1000));
      else
        look_up();
    } else if (phase_ == Phase::kChoosing) {
      choose();
    } else if (storing_) {
      log(base::LogLevel::kWarning, "response_not_stored", "the session store does not answer");
      storing_ = false;
      end_if_ready();
    }
  }

  /// The terminal event needs no credit, but comes behind the last delta, which does.
  void end_if_ready() {
    if (phase_ != Phase::kFinishing || storing_ || generation_->has_pieces()) return;
    const auto ends = generation_->ends();
    parts_->metrics->succeeded(ends.front().reason);
    tell(gateway_, wire::request_finished(request_.request, ends, usage()));
    leave();
  }

  wire::Usage usage() const {
    wire::Usage usage;
    if (!generation_) return usage;
    usage.prompt_tokens = generation_->prompt_tokens();
    usage.output_tokens = generation_->output_tokens();
    usage.cache = generation_->cache_report();
    if (usage.cache && builder_->template_rewrote()) usage.cache->miss = kv::MissReason::kTemplateRewrote;
    usage.prompt_logprobs = generation_->prompt_logprobs();
    usage.numerics_changed = numerics_changed_;
    return usage;
  }

  void fail(const Error& error) {
    abort({});
    phase_ = Phase::kFinishing;
    if (generation_) deliver();
    parts_->metrics->failed(error);
    if (!error.operator_detail.empty())
      log(base::LogLevel::kWarning, "request_failed",
          "request=" + std::to_string(request_.request.value) + " reason=" + std::string(reason_name(error.reason)));
    tell(gateway_, wire::request_failed(request_.request, error, usage()));
    leave();
  }

  void leave() {
    parts_->metrics->latency.observe(std::chrono::duration<double>(now() - received_).count());
    quit();
  }

  void on_cancel(bool silent) {
    if (silent) {
      abort({});
      quit();
      return;
    }
    credit_ = kNone32;  // whoever cancels takes what there is
    cancelled_ = true;
    if (phase_ == Phase::kFinishing) {
      storing_ = false;
      deliver();
      end_if_ready();
    } else if (!admitted_) {
      fail(make_error(ErrorClass::kCancelled, ErrorReason::kCancelled, "The request was cancelled."));
    } else {
      abort({});
      generation_->cancel();
      finish();
    }
  }

  void on_down(const caf::actor_addr& dead) {
    if (gateway_.address() == dead) {
      abort({});
      quit();
      return;
    }
    if (!scheduler_ || scheduler_.address() != dead || phase_ == Phase::kFinishing) return;
    scheduler_ = {};
    if (attempt_ >= parts_->retry_budget)
      return fail(make_error(ErrorClass::kUnavailable, ErrorReason::kRetryBudget,
                             "The engine failed repeatedly while serving this request.", {}, "retry budget used up", 1000));
    parts_->metrics->retries.increment();
    ++attempt_;
    waiting_since_ = now();
    phase_ = Phase::kChoosing;
    ++question_;
    ask_again();
  }

  std::shared_ptr<const RequestSessionDependencies> parts_;
  caf::actor gateway_, scheduler_;
  Phase phase_ = Phase::kNew;
  session::Request request_;
  wire::PageJoiner<session::FoundResponse> parent_pages_;
  std::optional<session::ParentResponse> parent_;
  std::optional<session::PromptBuilder> builder_;
  std::optional<session::Generation> generation_;
  std::uint32_t question_ = 0;  // number of the question last asked; answers and timers of older ones are dropped
  std::uint32_t credit_ = 0, deltas_ = 0;
  std::uint16_t attempt_ = 0;
  std::uint32_t replica_ = 0;
  Hash128 key_domain_;
  std::optional<Hash128> numerics_;
  std::optional<Error> refusal_;
  bool numerics_changed_ = false, refused_once_ = false, asked_twice_ = false, admitted_ = false, storing_ = false, cancelled_ = false;
  TimePoint received_, waiting_since_, last_token_at_;
  std::optional<TimePoint> deadline_, first_token_at_;
};

}  // namespace

caf::actor spawn_request_session(caf::actor_system& system, std::shared_ptr<const RequestSessionDependencies> dependencies,
                                 const caf::actor& gateway) {
  return system.spawn<RequestSession>(std::move(dependencies), gateway);
}

}  // namespace troupe::actors
