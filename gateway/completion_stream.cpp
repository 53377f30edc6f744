// CompletionStream: see completion_answer.h.
#include "gateway/completion_answer.h"

#include <utility>

namespace troupe::gateway {

CompletionStream::CompletionStream(Service& service, Connection& connection, CompletionRequest request)
    : CompletionExchange(service, connection, std::move(request)),
      owed_(request_.prompts.size()),
      chunks_(service, connection, "cmpl-", "text_completion", model_request().model, request_.include_usage) {
  submit();
}

void CompletionStream::piece(std::size_t choice, messages::DeltaPiece::Reader piece) {
  std::string logprobs;
  if (model_request().logprobs && piece.hasLogprobs()) {
    CompletionLogprobs entries;
    entries.add(piece, *model_request().logprobs);
    logprobs = entries.json();
  }
  chunks_.write(chunk_choice(choice, named_string("text", text_of(piece.getText())), logprobs, ""));
}

void CompletionStream::writable() {
  if (!begun_) return;
  for (std::size_t i = 0; i < owed_.size(); i++)
    if (owed_[i] > 0) grant(i, std::exchange(owed_[i], 0));
}

void CompletionStream::prompt_finished(std::size_t prompt, messages::RequestFinished::Reader message) {
  auto ends = message.getOutcome().getChoices();
  for (unsigned i = 0; i < ends.size() && i < model_request().choices; i++)
    chunks_.write(chunk_choice(prompt * model_request().choices + i, named_string("text", ""), "", finish_reason(ends[i].getReason())));
}

}  // namespace troupe::gateway
