// Third part of a request: tokens in, text out, and the one terminal event.
#include "actors/request_session.h"
#include "actors/wire/admission.h"
#include "actors/wire/common.h"
#include "messages/error_reasons.h"
#include "runtime/session/conversation.h"

#include <ctime>

namespace troupe::actors {
namespace {

const char* finish_word(session::ChoiceReason reason) {
  if (reason == session::ChoiceReason::kLength) return "length";
  return reason == session::ChoiceReason::kCancelled ? "cancelled" : "stop";
}

}  // namespace

void RequestSession::on_tokens(const schedule::TokensGenerated& message) {
  if (!generation_ || message.attempt != attempt_ || (phase_ != Phase::kGenerating && phase_ != Phase::kAdmitting)) return;
  measure(message);
  if (generation_->on_tokens(message)) abort({message.choice});
  if (generation_->done())
    finish();
  else
    deliver();
}

void RequestSession::measure(const schedule::TokensGenerated& message) {
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

void RequestSession::deliver() {
  const bool last = phase_ == Phase::kFinishing;
  const bool waits = request_.stream ? credit_ == 0 : !last && generation_->pending_bytes() < kJoinedBytes;
  if (!admitted_ || !generation_->has_pieces() || waits) return;
  if (credit_ > 0) --credit_;
  tell(gateway_, wire::token_delta(request_.request, deltas_++, generation_->take_pieces()));
}

void RequestSession::on_credit(std::uint32_t deltas) {
  credit_ += deltas;
  if (!generation_) return;
  deliver();
  end_if_ready();
}

void RequestSession::finish() {
  if (generation_->failure()) return fail(*generation_->failure());
  phase_ = Phase::kFinishing;
  leave_scheduler();
  deliver();
  if (request_.endpoint == session::Endpoint::kResponses && !request_.response_id.empty()) store();
  end_if_ready();
}

void RequestSession::store() {
  session::StoredResponse response;
  response.id = request_.response_id;
  response.parent = request_.previous_response_id;
  response.owner = request_.owner;
  response.retention = request_.retention;
  response.connection = request_.connection;
  response.lane = request_.lane;
  response.model = request_.model;
  response.template_id = session::text_id(*parts_->chat_template, *parts_->tokenizer);
  response.key_domain = key_domain_;
  response.inherited = builder_->inherited();
  response.tokens = generation_->stored_tokens();
  response.tokens.erase(response.tokens.begin(), response.tokens.begin() + response.inherited);
  response.prompt_tokens = generation_->prompt_tokens();
  auto conversation = builder_->conversation();
  conversation.output = generation_->stored_text();
  conversation.created_at = static_cast<std::int64_t>(std::time(nullptr));
  conversation.finish = finish_word(generation_->ends().front().reason);
  response.record = session::to_record(conversation);
  ++question_;
  storing_ = true;
  for (auto& page : wire::encode(question_, response)) tell(registry().find(Role::SESSION_STORE), page);
  delayed_send(this, request_.retention == session::Retention::kDisk ? kStoreTime : kReplyTime, ReplyAtom::value, question_);
}

void RequestSession::on_stored(messages::ResponseStored::Reader stored) {
  if (!storing_ || stored.getQuery() != question_) return;
  if (stored.hasError()) {
    store_error_ = wire::decode(stored.getError());
    log(base::LogLevel::kInfo, "response_not_stored", "reason=" + base::log_value(store_error_->client_text));
  }
  storing_ = false;
  end_if_ready();
}

void RequestSession::on_overdue(std::uint32_t number) {
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
    store_error_ = make_error(ErrorClass::kStorageFailed, ErrorReason::kActorDied, "The session store does not answer.");
    log(base::LogLevel::kWarning, "response_not_stored", "reason=\"the session store does not answer\"");
    storing_ = false;
    end_if_ready();
  }
}

void RequestSession::end_if_ready() {
  if (phase_ != Phase::kFinishing || storing_ || generation_->has_pieces()) return;
  const auto ends = generation_->ends();
  parts_->metrics->succeeded(ends.front().reason);
  tell(gateway_, wire::request_finished(request_.request, ends, usage()));
  leave();
}

wire::Usage RequestSession::usage() const {
  wire::Usage usage;
  if (!generation_) return usage;
  usage.prompt_tokens = generation_->prompt_tokens();
  usage.output_tokens = generation_->output_tokens();
  usage.cache = generation_->cache_report();
  if (usage.cache && builder_->template_rewrote()) usage.cache->miss = kv::MissReason::kTemplateRewrote;
  if (phase_ == Phase::kFinishing && request_.score_from != kNone32) {
    usage.prompt_ids = generation_->prompt();
    usage.prompt_logprobs = generation_->prompt_logprobs();
    for (const auto* ids : {&usage.prompt_ids, &usage.prompt_logprobs.ids})
      for (const TokenId id : *ids) usage.prompt_texts.emplace_back(parts_->tokenizer->bytes(id));
  }
  usage.numerics_changed = numerics_changed_;
  usage.store_error = store_error_;
  return usage;
}

void RequestSession::fail(const Error& error) {
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

void RequestSession::leave() {
  parts_->metrics->latency.observe(std::chrono::duration<double>(now() - received_).count());
  quit();
}

void RequestSession::on_cancel(bool silent) {
  if (silent) {
    abort({});
    quit();
    return;
  }
  // Whoever cancels takes what there is, and may go on from it: it is stored like a whole answer.
  credit_ = kNone32;
  if (phase_ == Phase::kFinishing) {
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

void RequestSession::on_down(const caf::actor_addr& dead) {
  if (gateway_.address() == dead) {
    abort({});
    quit();
    return;
  }
  if (!scheduler_ || scheduler_.address() != dead || phase_ == Phase::kFinishing) return;
  scheduler_ = {};
  if (attempt_ >= parts_->retry_budget)
    return fail(make_error(ErrorClass::kUnavailable, ErrorReason::kRetryBudget, "The engine failed repeatedly while serving this request.",
                           {}, "retry budget used up", 1000));
  parts_->metrics->retries.increment();
  ++attempt_;
  waiting_since_ = now();
  phase_ = Phase::kChoosing;
  ++question_;
  ask_again();
}

}  // namespace troupe::actors
