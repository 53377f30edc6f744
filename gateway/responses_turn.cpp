// See responses_turn.h.
#include "gateway/responses_turn.h"

#include "gateway/answer_json.h"
#include "gateway/error_body.h"
#include "messages/error_reasons.h"

namespace troupe::gateway {

using nlohmann::json;

std::string error_event(const Error& error, const std::string& lane) {
  json event = {{"type", "error"}, {"status", http_status(error.error_class)}, {"error", error_json(error)}};
  // The SDK's ResponseErrorEvent has these beside the type.
  for (const char* field : {"message", "code", "param"}) event[field] = event["error"][field];
  if (error.retry_after_ms > 0) event["retry_after"] = (error.retry_after_ms + 999) / 1000;
  if (!lane.empty()) event["stream_id"] = lane;
  return to_text(event);
}

ResponsesTurn::ResponsesTurn(Service& service, ResponsesRequest request, Hooks hooks)
    : service_(service),
      request_(std::move(request)),
      hooks_(std::move(hooks)),
      created_at_(unix_time()),
      call_(service.live(), request_.engine, *this) {}

void ResponsesTurn::emit(std::string_view type, json fields) {
  fields["type"] = type;
  fields["sequence_number"] = sequence_number_++;
  if (!request_.engine.lane.empty()) fields["stream_id"] = request_.engine.lane;
  hooks_.send(to_text(fields));
}

void ResponsesTurn::emit_response(std::string_view type, std::string_view status, json changes) {
  json response = request_.echoed;
  response["id"] = response_id();
  response["object"] = "response";
  response["created_at"] = created_at_;
  response["model"] = request_.engine.model;
  response["status"] = status;
  response["error"] = nullptr;
  response["incomplete_details"] = nullptr;
  response["usage"] = nullptr;
  auto output = json::array();
  for (const auto& item : items_) output.push_back(item_json(item, item.done ? item_status_ : "in_progress"));
  response["output"] = std::move(output);
  response.update(changes);
  emit(type, {{"response", std::move(response)}});
}

void ResponsesTurn::begin() {
  if (begun_) return;
  begun_ = true;
  emit_response("response.created", "in_progress", json::object());
  emit_response("response.in_progress", "in_progress", json::object());
}

void ResponsesTurn::admitted(messages::RequestAdmitted::Reader) { begin(); }

json ResponsesTurn::part_json(const Item& item, bool whole) const {
  if (item.kind == Kind::kReasoning) return {{"type", "reasoning_text"}, {"text", whole ? item.text : ""}};
  json part = {{"type", "output_text"}, {"text", whole ? item.text : ""}, {"annotations", json::array()}};
  part["logprobs"] = whole ? item.logprobs : json::array();
  return part;
}

json ResponsesTurn::item_json(const Item& item, std::string_view status) const {
  bool whole = status != "in_progress";
  auto parts = whole ? json::array({part_json(item, true)}) : json::array();
  switch (item.kind) {
    case Kind::kReasoning:
      return {{"id", item.id}, {"type", "reasoning"}, {"status", status}, {"summary", json::array()}, {"content", std::move(parts)}};
    case Kind::kFunctionCall:
      return {{"id", item.id},           {"type", "function_call"}, {"status", status},
              {"call_id", item.call_id}, {"name", item.name},       {"arguments", whole ? item.text : ""}};
    case Kind::kMessage: break;
  }
  return {{"id", item.id}, {"type", "message"}, {"role", "assistant"}, {"status", status}, {"content", std::move(parts)}};
}

void ResponsesTurn::open_item(Item& item) {
  auto index = items_.size() - 1;
  emit("response.output_item.added", {{"output_index", index}, {"item", item_json(item, "in_progress")}});
  if (item.kind == Kind::kFunctionCall) return;
  emit("response.content_part.added",
       {{"item_id", item.id}, {"output_index", index}, {"content_index", 0}, {"part", part_json(item, false)}});
}

ResponsesTurn::Item& ResponsesTurn::item_for(Kind kind, std::uint16_t number, bool opens, std::string_view name) {
  bool same = !items_.empty() && !items_.back().done && items_.back().kind == kind && items_.back().number == number && !opens;
  if (same) return items_.back();
  close_item("completed");
  Item item{kind, number, "", "", "", "", json::array(), false};
  item.id = random_id(kind == Kind::kMessage ? "msg_" : kind == Kind::kReasoning ? "rs_" : "fc_");
  if (kind == Kind::kFunctionCall) {
    item.name = name;
    item.call_id = random_id("call_");
  }
  items_.push_back(std::move(item));
  open_item(items_.back());
  return items_.back();
}

void ResponsesTurn::close_item(std::string_view status) {
  if (items_.empty() || items_.back().done) return;
  auto& item = items_.back();
  item.done = true;
  auto index = items_.size() - 1;
  json place = {{"item_id", item.id}, {"output_index", index}};
  if (item.kind == Kind::kFunctionCall) {
    place["arguments"] = item.text;
    place["name"] = item.name;
    emit("response.function_call_arguments.done", place);
  } else {
    place["content_index"] = 0;
    json done = place;
    done["text"] = item.text;
    bool reasoning = item.kind == Kind::kReasoning;
    if (!reasoning) done["logprobs"] = item.logprobs;
    emit(reasoning ? "response.reasoning_text.done" : "response.output_text.done", std::move(done));
    place["part"] = part_json(item, true);
    emit("response.content_part.done", std::move(place));
  }
  emit("response.output_item.done", {{"output_index", index}, {"item", item_json(item, status)}});
}

void ResponsesTurn::emit_delta(const Item& item, std::string_view text, const json& logprobs) {
  // By hand: one of these a token.
  std::string event = "{\"type\":\"";
  switch (item.kind) {
    case Kind::kMessage: event += "response.output_text.delta"; break;
    case Kind::kReasoning: event += "response.reasoning_text.delta"; break;
    case Kind::kFunctionCall: event += "response.function_call_arguments.delta"; break;
  }
  event += "\",\"item_id\":\"" + item.id + "\",\"output_index\":" + std::to_string(items_.size() - 1);
  if (item.kind != Kind::kFunctionCall) event += ",\"content_index\":0";
  event += ",\"delta\":";
  append_json_string(event, text);
  if (item.kind == Kind::kMessage) event += ",\"logprobs\":" + to_text(logprobs);
  event += ",\"sequence_number\":" + std::to_string(sequence_number_++);
  if (!request_.engine.lane.empty()) {
    event += ",\"stream_id\":";
    append_json_string(event, request_.engine.lane);
  }
  event += '}';
  hooks_.send(std::move(event));
}

void ResponsesTurn::write_piece(messages::DeltaPiece::Reader piece) {
  if (piece.getChoice() != 0) return;
  auto text = text_of(piece.getText());
  Kind kind = Kind::kMessage;
  if (piece.getChannel() == messages::Channel::REASONING) kind = Kind::kReasoning;
  bool opens = piece.getChannel() == messages::Channel::TOOL_NAME;
  if (opens || piece.getChannel() == messages::Channel::TOOL_ARGUMENTS) kind = Kind::kFunctionCall;
  auto& item = item_for(kind, piece.getItem(), opens, text);
  if (opens) return;
  item.text += text;
  json logprobs = json::array();
  if (piece.hasLogprobs() && request_.engine.sampling.wants_logprobs()) {
    logprobs = logprob_entries(piece);
    for (const auto& entry : logprobs) item.logprobs.push_back(entry);
  }
  if (!text.empty() || !logprobs.empty()) emit_delta(item, text, logprobs);
}

void ResponsesTurn::delta(messages::TokenDelta::Reader message) {
  begin();
  owed_++;
  for (auto piece : message.getPieces()) write_piece(piece);
}

void ResponsesTurn::grant_owed() {
  call_.grant(owed_);
  owed_ = 0;
}

void ResponsesTurn::end_with_error(const Error& error) {
  if (!begun_) {
    hooks_.send(error_event(error, request_.engine.lane));
  } else {
    item_status_ = "incomplete";
    close_item(item_status_);
    json details = {{"code", reason_name(error.reason)}, {"message", error.client_text}};
    emit_response("response.failed", "failed", {{"error", std::move(details)}});
  }
  hooks_.over();
}

void ResponsesTurn::finished(messages::RequestFinished::Reader message) {
  call_.ended();
  auto outcome = message.getOutcome();
  bool no_choice = !outcome.isError() && (!outcome.isChoices() || outcome.getChoices().size() == 0);
  if (outcome.isError()) return end_with_error(from_wire(outcome.getError()));
  if (no_choice) return end_with_error(make_error(ErrorClass::kInternal, ErrorReason::kUnclassified, "the answer has no choices"));
  begin();
  auto reason = outcome.getChoices()[0].getReason();
  json changes = {{"usage", responses_usage(message)}};
  std::string_view status = "completed";
  // A warm-up ends by its length, 0, as it was asked to.
  if (reason == messages::FinishReason::LENGTH && request_.generate) {
    status = "incomplete";
    changes["incomplete_details"] = {{"reason", "max_output_tokens"}};
  } else if (reason == messages::FinishReason::CANCELLED) {
    status = "incomplete";
    changes["incomplete_details"] = {{"reason", "cancelled"}};
  }
  item_status_ = status;
  bool empty_answer = items_.empty() && request_.generate && status == "completed";
  if (empty_answer) item_for(Kind::kMessage, 0, false, "");  // clients read output[0]
  close_item(item_status_);
  emit_response("response." + std::string(status), status, std::move(changes));
  hooks_.over();
}

void ResponsesTurn::cut_short(const Error& error) {
  call_.cancel_silently();
  end_with_error(error);
}

}  // namespace troupe::gateway
