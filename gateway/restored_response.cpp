// See restored_response.h.
#include "gateway/restored_response.h"

#include "gateway/answer_json.h"
#include "gateway/error_body.h"
#include "messages/error_reasons.h"

namespace troupe::gateway {

bool RestoredResponse::add(messages::ResponseFound::Reader page) {
  if (page.getPage().getIndex() == 0) {
    model_ = text_of(page.getModel());
    prompt_tokens_ = page.getPromptTokens();
  }
  tokens_ += page.getTokens().size();
  record_ += bytes_of(page.getRecord());
  return page.getPage().getIndex() + 1 >= page.getPage().getCount();
}

Result<std::string> RestoredResponse::object() const {
  using nlohmann::json;
  const auto record = json::parse(record_, nullptr, false);
  if (!record.is_object() || !record.contains("output") || !record["output"].is_string())
    return make_error(ErrorClass::kCorrupted, ErrorReason::kUnclassified, "the stored response cannot be read", "response_id");
  const std::string finish = record.value("finish", "stop");
  const char* status = finish == "stop" ? "completed" : finish == "cancelled" ? "cancelled" : "incomplete";
  const char* why = finish == "cancelled" ? "cancelled" : "max_output_tokens";
  const auto created = record.value("created_at", std::int64_t{0});
  const auto output = tokens_ - std::min<std::uint64_t>(tokens_, prompt_tokens_);
  json part = {{"type", "output_text"}, {"text", record["output"]}, {"annotations", json::array()}, {"logprobs", json::array()}};
  json item = {{"type", "message"},
               {"id", "msg_" + id_.substr(id_.find('_') + 1)},
               {"role", "assistant"},
               {"status", "completed"},
               {"content", json::array({std::move(part)})}};
  const std::string instructions = record.value("instructions", "");
  return to_text({{"id", id_},
                  {"object", "response"},
                  {"created_at", created},
                  {"model", model_},
                  {"status", status},
                  {"error", nullptr},
                  {"incomplete_details", finish == "stop" ? json() : json{{"reason", why}}},
                  {"instructions", instructions.empty() ? json() : json(instructions)},
                  {"metadata", json::object()},
                  {"parallel_tool_calls", true},
                  {"tool_choice", "auto"},
                  {"tools", json::array()},
                  {"store", true},
                  {"output", json::array({std::move(item)})},
                  {"usage",
                   {{"input_tokens", prompt_tokens_},
                    {"input_tokens_details", {{"cached_tokens", 0}}},
                    {"output_tokens", output},
                    {"output_tokens_details", {{"reasoning_tokens", 0}}},
                    {"total_tokens", tokens_}}}});
}

}  // namespace troupe::gateway
