// CompletionExchange and CompletionAnswer: see completion_answer.h.
#include "gateway/completion_answer.h"

#include "gateway/error_body.h"

#include <cmath>

namespace troupe::gateway {
namespace {

void append_entry(std::string& list, std::string_view entry) {
  if (!list.empty()) list += ',';
  list += entry;
}

std::string json_string(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

}  // namespace

void CompletionLogprobs::add(messages::DeltaPiece::Reader piece, unsigned most) {
  auto logprobs = piece.getLogprobs();
  auto chosen = logprobs.getChosen();
  auto ids = piece.getTokenIds();
  auto texts = piece.getTokenTexts();
  auto top_ids = logprobs.getIds();
  auto top_values = logprobs.getLogprobs();
  auto offsets = piece.getTokenOffsets();
  unsigned width = logprobs.getWidth();
  auto name_at = [&](unsigned index) { return index < texts.size() ? json_string(token_name(bytes_of(texts[index]))) : "\"\""; };
  for (unsigned i = 0; i < chosen.size() && i < ids.size(); i++) {
    auto name = name_at(i);
    append_entry(tokens_, name);
    append_entry(offsets_, std::to_string(i < offsets.size() ? offsets[i] : 0));
    if (std::isnan(chosen[i])) {  // the first token of an echoed prompt follows nothing
      append_entry(values_, "null");
      append_entry(top_, "null");
      continue;
    }
    auto value = to_text(logprob_value(chosen[i]));
    append_entry(values_, value);
    std::string top;
    bool itself = false;
    for (unsigned k = 0; k < std::min(width, most) && i * width + k < top_ids.size(); k++) {
      unsigned entry = i * width + k;
      itself = itself || top_ids[entry] == ids[i];
      append_entry(top, name_at(chosen.size() + entry) + ":" + to_text(logprob_value(top_values[entry])));
    }
    if (!itself) append_entry(top, name + ":" + value);
    append_entry(top_, "{" + top + "}");
  }
}

std::string CompletionLogprobs::json() const {
  return "{\"tokens\":[" + tokens_ + "],\"token_logprobs\":[" + values_ + "],\"top_logprobs\":[" + top_ + "],\"text_offset\":[" + offsets_ +
         "]}";
}

CompletionExchange::CompletionExchange(Service& service, Connection& connection, CompletionRequest request)
    : service_(service), connection_(connection), request_(std::move(request)) {}

CompletionExchange::Part::Part(CompletionExchange& exchange, std::size_t prompt_index)
    : owner(exchange), index(prompt_index), call(exchange.service_.live(), exchange.request_.prompts[prompt_index], *this) {}

void CompletionExchange::submit() {
  for (std::size_t i = 0; i < request_.prompts.size(); i++) parts_.push_back(std::make_unique<Part>(*this, i));
}

void CompletionExchange::part_admitted(Part& part) {
  if (std::exchange(part.is_admitted, true) || over_) return;
  if (++admitted_ == parts_.size()) all_admitted();
}

void CompletionExchange::part_delta(Part& part, messages::TokenDelta::Reader message) {
  auto choices = model_request().choices;
  for (auto entry : message.getPieces()) {
    if (over_) return;
    if (entry.getChoice() < choices) piece(part.index * choices + entry.getChoice(), entry);
  }
  if (!over_) delta_taken(part.index);
}

void CompletionExchange::part_finished(Part& part, messages::RequestFinished::Reader message) {
  part.call.ended();
  if (over_) return;
  if (auto error = failure_of(message)) return give_up(*error);
  part_admitted(part);
  usage_.add(message);
  prompt_finished(part.index, message);
  if (over_ || ++finished_ < parts_.size()) return;
  over_ = true;
  all_finished();
}

void CompletionExchange::cancel() {
  over_ = true;
  for (auto& part : parts_) part->call.cancel_silently();
}

void CompletionExchange::give_up(const Error& error) {
  cancel();
  fail(error);
}

void CompletionExchange::cut_short() { give_up(cut_by_drain()); }

CompletionAnswer::CompletionAnswer(Service& service, Connection& connection, CompletionRequest request)
    : CompletionExchange(service, connection, std::move(request)), choices_(request_.choices()) {
  submit();
}

void CompletionAnswer::piece(std::size_t index, messages::DeltaPiece::Reader piece) {
  auto& choice = choices_[index];
  auto before = choice.text.size() + choice.logprobs.size();
  choice.text += text_of(piece.getText());
  if (model_request().logprobs && piece.hasLogprobs()) choice.logprobs.add(piece, *model_request().logprobs);
  gathered_ += choice.text.size() + choice.logprobs.size() - before;
  if (gathered_ > service_.limits().answer) give_up(answer_too_large(service_.limits()));
}

void CompletionAnswer::prompt_finished(std::size_t prompt, messages::RequestFinished::Reader message) {
  auto first = prompt * model_request().choices;
  auto ends = message.getOutcome().getChoices();
  for (unsigned i = 0; i < ends.size() && i < model_request().choices; i++) choices_[first + i].reason = finish_reason(ends[i].getReason());
  if (!model_request().prompt_logprobs) return;
  choices_[first].prompt_logprobs = prompt_logprobs_text(message, *model_request().prompt_logprobs);
  gathered_ += choices_[first].prompt_logprobs.size();
  if (gathered_ > service_.limits().answer) give_up(answer_too_large(service_.limits()));
}

std::string CompletionAnswer::choice_text(const Choice& choice, std::size_t index) const {
  std::string out = "{\"index\":" + std::to_string(index) + ",\"text\":" + json_string(choice.text);
  out += ",\"logprobs\":" + (model_request().logprobs ? choice.logprobs.json() : "null");
  if (model_request().prompt_logprobs) out += ",\"prompt_logprobs\":" + (choice.prompt_logprobs.empty() ? "null" : choice.prompt_logprobs);
  return out + ",\"finish_reason\":" + json_string(choice.reason) + "}";
}

void CompletionAnswer::all_finished() {
  std::string out = "{\"id\":\"" + random_id("cmpl-") + "\",\"object\":\"text_completion\",\"created\":" + std::to_string(unix_time()) +
                    ",\"model\":" + json_string(model_request().model) + ",\"system_fingerprint\":null,\"choices\":[";
  for (std::size_t i = 0; i < choices_.size(); i++) {
    if (i > 0) out += ',';
    out += choice_text(choices_[i], i);
  }
  connection_.respond(200, "application/json", out + "],\"usage\":" + to_text(usage_.chat()) + "}");
}

void CompletionAnswer::fail(const Error& error) { service_.answer_error(connection_, error); }

}  // namespace troupe::gateway
