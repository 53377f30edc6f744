// See response_body.h.
#include "gateway/response_body.h"

#include "gateway/answer_json.h"
#include "gateway/error_body.h"
#include "gateway/service.h"
#include "messages/error_reasons.h"

namespace troupe::gateway {

using nlohmann::json;

namespace {
json entries_of(const std::string& logprobs) { return json::parse("[" + logprobs + "]"); }
}  // namespace

ResponseBody::ResponseBody(std::string id, const ResponsesRequest& request, Emit emit)
    : emit_(std::move(emit)),
      id_(std::move(id)),
      model_(request.engine.model),
      echoed_(to_text(request.echoed).substr(1)),
      generate_(request.generate),
      wants_logprobs_(request.engine.sampling.wants_logprobs()),
      created_at_(unix_time()) {}

void ResponseBody::emit(std::string_view type, json fields) {
  if (!emit_) return;
  fields["type"] = type;
  fields["sequence_number"] = sequence_number_++;
  emit_(type, to_text(fields));
}

std::string ResponseBody::object() const {
  json response = {{"id", id_},         {"object", "response"}, {"created_at", created_at_},         {"model", model_},
                   {"status", status_}, {"error", error_},      {"incomplete_details", incomplete_}, {"usage", usage_}};
  if (completed_at_ > 0) response["completed_at"] = completed_at_;
  if (!store_error_.is_null()) response["store_error"] = store_error_;
  auto output = json::array();
  for (const auto& item : items_) output.push_back(item_json(item, true));
  response["output"] = std::move(output);
  auto text = to_text(response);
  text.back() = ',';
  return text + echoed_;
}

void ResponseBody::emit_response(std::string_view type) {
  if (!emit_) return;
  auto event = "{\"type\":\"" + std::string(type) + "\",\"sequence_number\":" + std::to_string(sequence_number_++);
  emit_(type, event + ",\"response\":" + object() + "}");
}

void ResponseBody::begin(bool queued) {
  if (begun_) return;
  begun_ = true;
  if (queued) status_ = "queued";
  emit_response("response.created");
  if (queued) return emit_response("response.queued");
  start();
}

void ResponseBody::start() {
  if (started_) return;
  started_ = true;
  status_ = "in_progress";
  emit_response("response.in_progress");
}

json ResponseBody::part_json(const Item& item, bool whole) const {
  if (item.kind == Kind::kReasoning) return {{"type", "reasoning_text"}, {"text", whole ? item.text : ""}};
  json part = {{"type", "output_text"}, {"text", whole ? item.text : ""}, {"annotations", json::array()}};
  part["logprobs"] = whole ? entries_of(item.logprobs) : json::array();
  return part;
}

json ResponseBody::item_json(const Item& item, bool whole) const {
  auto parts = whole ? json::array({part_json(item, true)}) : json::array();
  switch (item.kind) {
    case Kind::kReasoning:
      return {{"id", item.id}, {"type", "reasoning"}, {"status", item.status}, {"summary", json::array()}, {"content", std::move(parts)}};
    case Kind::kFunctionCall:
      return {{"id", item.id},           {"type", "function_call"}, {"status", item.status},
              {"call_id", item.call_id}, {"name", item.name},       {"arguments", whole ? item.text : ""}};
    case Kind::kMessage: break;
  }
  return {{"id", item.id}, {"type", "message"}, {"role", "assistant"}, {"status", item.status}, {"content", std::move(parts)}};
}

void ResponseBody::open_item(const Item& item) {
  auto index = items_.size() - 1;
  emit("response.output_item.added", {{"output_index", index}, {"item", item_json(item, false)}});
  if (item.kind == Kind::kFunctionCall) return;
  emit("response.content_part.added",
       {{"item_id", item.id}, {"output_index", index}, {"content_index", 0}, {"part", part_json(item, false)}});
}

ResponseBody::Item& ResponseBody::item_for(Kind kind, std::uint16_t number, bool opens, std::string_view name) {
  bool same = !items_.empty() && items_.back().kind == kind && items_.back().number == number && !opens;
  if (same && items_.back().status == "in_progress") return items_.back();
  close_item("completed");
  Item item{kind, number, "", "", "", "", ""};
  item.id = random_id(kind == Kind::kMessage ? "msg_" : kind == Kind::kReasoning ? "rs_" : "fc_");
  if (kind == Kind::kFunctionCall) {
    item.name = name;
    item.call_id = random_id("call_");
  }
  items_.push_back(std::move(item));
  open_item(items_.back());
  return items_.back();
}

void ResponseBody::close_item(std::string_view status) {
  if (items_.empty() || items_.back().status != "in_progress") return;
  auto& item = items_.back();
  item.status = status;
  if (!emit_) return;
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
    if (!reasoning) done["logprobs"] = entries_of(item.logprobs);
    emit(reasoning ? "response.reasoning_text.done" : "response.output_text.done", std::move(done));
    place["part"] = part_json(item, true);
    emit("response.content_part.done", std::move(place));
  }
  emit("response.output_item.done", {{"output_index", index}, {"item", item_json(item, true)}});
}

void ResponseBody::emit_delta(const Item& item, std::string_view text, std::string_view logprobs) {
  if (!emit_) return;
  // By hand: one of these a token.
  std::string_view type = "response.output_text.delta";
  if (item.kind == Kind::kReasoning) type = "response.reasoning_text.delta";
  if (item.kind == Kind::kFunctionCall) type = "response.function_call_arguments.delta";
  std::string event = "{\"type\":\"";
  event.append(type).append("\",\"item_id\":\"").append(item.id);
  event += "\",\"output_index\":" + std::to_string(items_.size() - 1);
  if (item.kind != Kind::kFunctionCall) event += ",\"content_index\":0";
  event += ",\"delta\":";
  append_json_string(event, text);
  if (item.kind == Kind::kMessage) event.append(",\"logprobs\":[").append(logprobs).append("]");
  event += ",\"sequence_number\":" + std::to_string(sequence_number_++) + "}";
  emit_(type, std::move(event));
}

void ResponseBody::write_piece(messages::DeltaPiece::Reader piece) {
  if (piece.getChoice() != 0) return;
  auto text = text_of(piece.getText());
  Kind kind = Kind::kMessage;
  if (piece.getChannel() == messages::Channel::REASONING) kind = Kind::kReasoning;
  bool opens = piece.getChannel() == messages::Channel::TOOL_NAME;
  if (opens || piece.getChannel() == messages::Channel::TOOL_ARGUMENTS) kind = Kind::kFunctionCall;
  auto& item = item_for(kind, piece.getItem(), opens, text);
  if (opens) return;
  item.text += text;
  std::string logprobs;
  if (piece.hasLogprobs() && wants_logprobs_)
    for (const auto& entry : logprob_entries(piece)) logprobs += (logprobs.empty() ? "" : ",") + to_text(entry);
  if (!logprobs.empty()) item.logprobs += (item.logprobs.empty() ? "" : ",") + logprobs;
  bytes_ += text.size() + logprobs.size();
  if (!text.empty() || !logprobs.empty()) emit_delta(item, text, logprobs);
}

void ResponseBody::delta(messages::TokenDelta::Reader message) {
  if (ended_) return;
  begin(false);
  start();
  for (auto piece : message.getPieces()) write_piece(piece);
}

void ResponseBody::end(std::string_view type, std::string_view status) {
  start();
  close_item(status == "completed" ? "completed" : "incomplete");
  ended_ = true;
  status_ = status;
  if (status == "completed") completed_at_ = unix_time();
  emit_response(type);
}

void ResponseBody::fail(const Error& error) {
  if (ended_) return;
  begin(false);
  error_ = {{"code", reason_name(error.reason)}, {"message", error_json(error)["message"]}};
  end("response.failed", "failed");
}

void ResponseBody::finish(messages::RequestFinished::Reader message) {
  if (ended_) return;
  auto outcome = message.getOutcome();
  if (outcome.isError()) {
    if (message.getPromptTokens() > 0) usage_ = responses_usage(message);
    return fail(from_wire(outcome.getError()));
  }
  if (!outcome.isChoices() || outcome.getChoices().size() == 0)
    return fail(make_error(ErrorClass::kInternal, ErrorReason::kUnclassified, "the answer has no choices"));
  begin(false);
  start();
  usage_ = responses_usage(message);
  if (message.hasStoreError()) store_error_ = error_json(from_wire(message.getStoreError()));
  auto reason = outcome.getChoices()[0].getReason();
  if (reason == messages::FinishReason::CANCELLED) {
    incomplete_ = {{"reason", "cancelled"}};
    return end("response.incomplete", "cancelled");
  }
  // A warm-up ends by its length, 0, as it was asked to.
  if (reason == messages::FinishReason::LENGTH && generate_) {
    incomplete_ = {{"reason", "max_output_tokens"}};
    return end("response.incomplete", "incomplete");
  }
  if (items_.empty() && generate_) item_for(Kind::kMessage, 0, false, "");  // clients read output[0]
  end("response.completed", "completed");
}

}  // namespace troupe::gateway
