// See chat_client.h.
#include "cluster/chat_client.h"
#include "messages/error_reasons.h"

#include <nlohmann/json.hpp>

namespace troupe::cluster {
namespace {

using nlohmann::json;
using namespace nlohmann::literals;

/// Message of an OpenAI error body, or a plain sentence.
std::string error_message(const json& body, int status) {
  if (body.is_object() && body.contains("error") && body["error"].is_object()) {
    const json& message = body["error"].value("message", json());
    if (message.is_string()) return message.get<std::string>();
  }
  return "the server answered with status " + std::to_string(status);
}

Error server_error(std::string text) { return make_error(ErrorClass::kUnavailable, ErrorReason::kUnclassified, std::move(text)); }

std::uint64_t count_of(const json& object, const char* name) {
  auto found = object.find(name);
  return found != object.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
}

/// Takes one `data:` event into `turn`; returns its text.
std::string take_event(const json& event, ChatTurn& turn) {
  std::string text;
  if (auto choices = event.find("choices"); choices != event.end() && choices->is_array() && !choices->empty()) {
    const json& choice = choices->front();
    if (choice.is_object()) {
      if (auto raw = choice.find("text"); raw != choice.end() && raw->is_string()) text = raw->get<std::string>();
      if (auto delta = choice.find("delta"); delta != choice.end() && delta->is_object())
        if (auto content = delta->find("content"); content != delta->end() && content->is_string()) text = content->get<std::string>();
      if (auto reason = choice.find("finish_reason"); reason != choice.end() && reason->is_string())
        turn.finish_reason = reason->get<std::string>();
    }
  }
  if (auto usage = event.find("usage"); usage != event.end() && usage->is_object()) {
    turn.prompt_tokens = count_of(*usage, "prompt_tokens");
    turn.output_tokens = count_of(*usage, "completion_tokens");
    if (auto details = usage->find("prompt_tokens_details"); details != usage->end() && details->is_object())
      turn.cached_tokens = count_of(*details, "cached_tokens");
  }
  return text;
}

}  // namespace

ChatClient::ChatClient(ServerAddress server, ChatSettings settings) : server_(std::move(server)), settings_(std::move(settings)) {
  forget();
}

void ChatClient::forget() {
  messages_.clear();
  if (!settings_.system_prompt.empty()) messages_.push_back({"system", settings_.system_prompt});
}

Status ChatClient::find_model() {
  if (!model_.empty()) return ok_status();
  auto answer = HttpStream::open(server_, "GET", "/v1/models", settings_.api_key);
  if (!answer) return answer.error();
  auto body = answer->rest();
  if (!body) return body.error();
  const json list = json::parse(*body, nullptr, false);
  if (answer->status() != 200) return server_error(error_message(list, answer->status()));
  const json pointer = list.is_object() ? list.value("/data/0/id"_json_pointer, json()) : json();
  if (!pointer.is_string()) return server_error("the server serves no model");
  model_ = pointer.get<std::string>();
  return ok_status();
}

std::string ChatClient::request_body() const {
  json body = {{"model", model_}, {"stream", true}, {"stream_options", {{"include_usage", true}}}, {"temperature", settings_.temperature}};
  if (settings_.raw) {
    body["prompt"] = messages_.back().content;
  } else {
    for (const Message& message : messages_) body["messages"].push_back({{"role", message.role}, {"content", message.content}});
  }
  // Completions end after 16 tokens unless they are told otherwise; a limit beyond the context means its end.
  constexpr std::uint64_t kToTheEnd = 1 << 20;
  if (settings_.max_tokens != 0 || settings_.raw) body["max_tokens"] = settings_.max_tokens != 0 ? settings_.max_tokens : kToTheEnd;
  if (settings_.seed != 0) body["seed"] = settings_.seed;
  return body.dump(-1, ' ', false, json::error_handler_t::replace);  // a terminal may send bytes that are not UTF-8
}

Result<ChatTurn> ChatClient::ask(const std::string& question, const std::function<void(std::string_view)>& on_text,
                                 const std::function<bool()>& stop_wanted) {
  if (auto status = find_model(); !status) return status.error();
  messages_.push_back({"user", question});
  auto turn = stream(on_text, stop_wanted);
  if (turn && !settings_.raw)
    messages_.push_back({"assistant", turn->text});
  else
    messages_.pop_back();
  return turn;
}

Result<ChatTurn> ChatClient::stream(const std::function<void(std::string_view)>& on_text, const std::function<bool()>& stop_wanted) {
  auto answer =
      HttpStream::open(server_, "POST", settings_.raw ? "/v1/completions" : "/v1/chat/completions", settings_.api_key, request_body());
  if (!answer) return answer.error();
  if (answer->status() != 200) {
    auto body = answer->rest();
    if (!body) return body.error();
    return server_error(error_message(json::parse(*body, nullptr, false), answer->status()));
  }
  ChatTurn turn;
  for (;;) {
    if (stop_wanted()) {
      turn.finish_reason = "cancelled";
      return turn;  // closing the connection stops the server's work
    }
    auto line = answer->next_line();
    if (!line) {
      if (stop_wanted()) continue;
      return line.error();
    }
    if (!*line) return server_error("the answer ended without its last event");
    std::string_view text = **line;
    if (!text.starts_with("data:")) continue;  // blank lines, comments, other fields
    text.remove_prefix(5);
    while (text.starts_with(' ')) text.remove_prefix(1);
    if (text == "[DONE]") return turn;
    const json event = json::parse(text, nullptr, false);
    if (!event.is_object()) return server_error("the server sent an event that is not JSON");
    if (event.contains("error")) return server_error(error_message(event, 200));
    const std::string piece = take_event(event, turn);
    turn.text += piece;
    if (!piece.empty()) on_text(piece);
  }
}

}  // namespace troupe::cluster
