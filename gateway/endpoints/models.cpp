// GET /v1/models and /v1/models/{id}: what the router serves now.
#include "gateway/endpoints/endpoints.h"
#include "gateway/error_body.h"
#include "gateway/service.h"
#include "messages/error_reasons.h"

namespace troupe::gateway::endpoints {
namespace {

nlohmann::json describe(messages::ServedModel::Reader model) {
  return {{"id", model.getName().cStr()},
          {"object", "model"},
          {"created", 0},
          {"owned_by", "troupe"},
          {"max_model_len", model.getContextTokens()}};  // vLLM's name for the context length
}

std::optional<Error> loading(Service& service) {
  if (service.directory()) return std::nullopt;
  return service.refusal();
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); i++) {
    bool escape = text[i] == '%' && i + 2 < text.size() && hex_value(text[i + 1]) >= 0 && hex_value(text[i + 2]) >= 0;
    if (!escape) {
      out += text[i];
      continue;
    }
    out += static_cast<char>(hex_value(text[i + 1]) * 16 + hex_value(text[i + 2]));
    i += 2;
  }
  return out;
}

}  // namespace

void models(Service& service, Connection& connection, HttpRequest&&, const Caller&) {
  if (auto error = loading(service)) return service.answer_error(connection, *error);
  auto data = nlohmann::json::array();
  for (auto model : service.directory()->getModels()) data.push_back(describe(model));
  connection.respond(200, "application/json", to_text({{"object", "list"}, {"data", data}}));
}

void model(Service& service, Connection& connection, HttpRequest&& request, const Caller&) {
  if (auto error = loading(service)) return service.answer_error(connection, *error);
  auto name = percent_decoded(request.path().substr(std::string_view("/v1/models/").size()));
  for (auto served : service.directory()->getModels())
    if (name == served.getName().cStr()) return connection.respond(200, "application/json", to_text(describe(served)));
  service.answer_error(connection, make_error(ErrorClass::kNotFound, ErrorReason::kUnknownModel,
                                              "no such model; GET /v1/models lists those that are served", "model"));
}

}  // namespace troupe::gateway::endpoints
