// /v1/system_prompts: which system prompts have their prefixes in the cache, and where; one more, one less. For the admin.
#include "gateway/answer_json.h"
#include "gateway/endpoints/endpoints.h"
#include "gateway/error_body.h"
#include "gateway/service.h"
#include "messages/error_reasons.h"

#include <algorithm>

namespace troupe::gateway::endpoints {
namespace {

using nlohmann::json;

constexpr std::string_view kPath = "/v1/system_prompts/";

std::string_view word_of(SystemPromptShelf::State state) {
  switch (state) {
    case SystemPromptShelf::State::kWaiting: return "waiting";
    case SystemPromptShelf::State::kWarm: return "warm";
    case SystemPromptShelf::State::kRefused: return "refused";
  }
  return "";
}

json json_of(const SystemPromptShelf::Entry& entry) {
  const auto& where = entry.where;
  const std::size_t somewhere = where.device + where.host + where.disk;
  json out = {{"name", entry.name},
              {"object", "system_prompt"},
              {"tokens", nullptr},
              {"status", word_of(entry.state)},
              {"memory",
               {{"device", where.device},
                {"host", where.host},
                {"disk", where.disk},
                {"computed", entry.tokens.size() - std::min(entry.tokens.size(), somewhere)}}},
              {"error", nullptr}};
  if (!entry.tokens.empty()) out["tokens"] = entry.tokens.size();
  if (entry.error) out["error"] = entry.error->client_text;
  return out;
}

Error too_many() {
  return make_error(ErrorClass::kOverloaded, ErrorReason::kQueueFull,
                    "at most " + std::to_string(kMostSystemPrompts) + " system prompts can be kept; delete one", "name", "", kRetryMs);
}

Result<SystemPrompt> parse_system_prompt(const JsonBody& body, const Limits&) {
  std::optional<Error> error;
  JsonFields fields(body.value, "", error);
  const auto read = [&](std::string_view name, bool (*good)(std::string_view), std::string_view rule) {
    const auto* value = fields.find(name);
    std::string text = value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
    if (value == nullptr)
      fields.missing(name, "is needed");
    else if (!good(text))
      fields.fail(name, rule);
    return text;
  };
  SystemPrompt out;
  out.name = read(fields::kSystemPromptName.name, good_system_prompt_name, kSystemPromptNameRule);
  out.text = read(fields::kSystemPromptText.name, good_system_prompt_text, kSystemPromptTextRule);
  if (error) return *error;
  return out;
}

/// Answers once the prompt's tokens are known; prefilling them goes on behind it.
class SystemPromptAnswer final : public Exchange {
 public:
  SystemPromptAnswer(Service& service, Connection& connection, SystemPrompt prompt)
      : service_(service),
        connection_(connection),
        name_(std::move(prompt.name)),
        call_(std::in_place, service, std::move(prompt.text), [this](Result<std::vector<TokenId>> tokens) { answer(std::move(tokens)); }) {}
  std::optional<Error> begin() { return call_->begin(); }

  void hung_up() override { call_.reset(); }
  void cut_short() override {
    call_.reset();
    service_.answer_error(connection_, cut_by_drain());
  }

 private:
  void answer(Result<std::vector<TokenId>> tokens) {
    if (!tokens) return service_.answer_error(connection_, tokens.error());
    auto& shelf = service_.system_prompts();
    if (!shelf.put(name_, std::move(*tokens))) return service_.answer_error(connection_, too_many());
    const auto& entries = shelf.entries();
    const auto put = std::find_if(entries.begin(), entries.end(), [this](const auto& entry) { return entry.name == name_; });
    connection_.respond(200, "application/json", to_text(json_of(*put)));
  }

  Service& service_;
  Connection& connection_;
  const std::string name_;
  std::optional<PrefixCall> call_;
};

}  // namespace

void list_system_prompts(Service& service, Connection& connection, HttpRequest&&, const Caller&) {
  auto data = json::array();
  for (const auto& entry : service.system_prompts().entries()) data.push_back(json_of(entry));
  connection.respond(200, "application/json", to_text({{"object", "list"}, {"data", data}}));
}

void put_system_prompt(Service& service, Connection& connection, HttpRequest&& request, const Caller&) {
  if (auto error = service.refusal()) return service.answer_error(connection, *error);
  auto prompt = service.parse(connection, request, parse_system_prompt);
  if (!prompt) return;
  if (!service.system_prompts().has_room(prompt->name)) return service.answer_error(connection, too_many());
  auto answer = std::make_unique<SystemPromptAnswer>(service, connection, std::move(*prompt));
  if (auto error = answer->begin()) return service.answer_error(connection, *error);
  connection.hold(std::move(answer));
}

void delete_system_prompt(Service& service, Connection& connection, HttpRequest&& request, const Caller&) {
  const auto name = request.path().substr(kPath.size());
  if (!service.system_prompts().remove(name))
    return service.answer_error(connection,
                                make_error(ErrorClass::kNotFound, ErrorReason::kUnknownRoute,
                                           "There is no system prompt '" + name.substr(0, kSystemPromptNameBytes) + "'.", "name"));
  connection.respond(200, "application/json", to_text({{"name", name}, {"object", "system_prompt"}, {"deleted", true}}));
}

}  // namespace troupe::gateway::endpoints
