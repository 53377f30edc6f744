// First part of a request: from SubmitRequest to exact token ids, through the parent response where there is one.
#include "actors/request_session.h"
#include "actors/wire/common.h"
#include "messages/error_reasons.h"
#include "runtime/session/context_limit.h"

namespace troupe::actors {
using std::chrono::milliseconds;

void RequestSession::on_submit(messages::SubmitRequest::Reader submit) {
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

void RequestSession::look_up() {
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

void RequestSession::on_found(messages::ResponseFound::Reader page) {
  if (phase_ != Phase::kLookingUp || page.getQuery() != question_) return;
  auto found = parent_pages_.add(page);
  if (!found) return;
  if (request_.score_continuation) request_.score_from = static_cast<std::uint32_t>(found->tokens.size());
  parent_ = session::ParentResponse{std::move(found->tokens), found->prompt_tokens, found->template_id, std::move(found->record)};
  build_prompt();
}

void RequestSession::build_prompt() {
  phase_ = Phase::kTokenizing;
  auto builder = session::PromptBuilder::make(request_, *parts_->chat_template, parts_->tokenizer, parent_ ? &*parent_ : nullptr);
  if (!builder) return fail(builder.error());
  if (request_.endpoint != session::Endpoint::kTokenize) {
    const auto fits = session::fit_text(builder->text_bytes(), parts_->tokenizer->longest(), parts_->context_tokens);
    if (!fits) return fail(fits.error());
  }
  builder_ = *std::move(builder);
  if (request_.endpoint == session::Endpoint::kTokenize && request_.echo) rendered_ = builder_->text();
  parent_.reset();
  send(this, SliceAtom::value);
}

void RequestSession::on_slice() {
  if (phase_ != Phase::kTokenizing) return;
  if (builder_->step()) {
    send(this, SliceAtom::value);  // others may have their turn between two slices
    return;
  }
  auto prompt = builder_->take_tokens();
  if (request_.endpoint == session::Endpoint::kTokenize) return tell_tokens(prompt);
  const auto max_tokens = session::fit_context(prompt.size(), request_.max_tokens, parts_->context_tokens);
  if (!max_tokens) return fail(max_tokens.error());
  if (request_.score_from != kNone32) {
    const auto weight = session::fit_scores(prompt.size(), request_.wants_logprobs() ? request_.sampling.top_logprobs + 1 : 1,
                                            request_.echo ? request_.choices : 1);
    if (!weight) return fail(weight.error());
  }
  generation_.emplace(request_, parts_->tokenizer, std::move(prompt), *max_tokens);
  waiting_since_ = now();
  choose();
}

/// The end of a request that wanted no more than this.
void RequestSession::tell_tokens(const std::vector<TokenId>& tokens) {
  phase_ = Phase::kFinishing;
  std::vector<std::string> texts;
  if (request_.echo) {
    for (const TokenId id : tokens) texts.emplace_back(parts_->tokenizer->bytes(id));
    if (std::holds_alternative<std::vector<TokenId>>(request_.input)) rendered_ = parts_->tokenizer->decode(tokens);
  }
  tell(gateway_, wire::request_tokenized(request_.request, tokens, texts, rendered_));
  quit();
}

}  // namespace troupe::actors
