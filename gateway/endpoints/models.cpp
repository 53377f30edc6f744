// GET /v1/models and /v1/models/{id}: what the router serves now.
#include "gateway/endpoints/endpoints.h"
#include "gateway/error_body.h"
#include "gateway/query.h"
#include "gateway/service.h"
#include "messages/error_reasons.h"

namespace troupe::gateway::endpoints {
namespace {

nlohmann::json describe(const Service& service, messages::ServedModel::Reader model) {
  return {{"id", model.getName().cStr()},
          {"object", "model"},
          {"created", service.started()},
          {"owned_by", "troupe"},
          {"max_model_len", model.getContextTokens()}};  // vLLM's name for the context length
}

std::optional<Error> loading(Service& service) {
  if (service.directory()) return std::nullopt;
  return service.refusal();
}

}  // namespace

void models(Service& service, Connection& connection, HttpRequest&&, const Caller&) {
  if (auto error = loading(service)) return service.answer_error(connection, *error);
  auto data = nlohmann::json::array();
  for (auto model : service.directory()->getModels()) data.push_back(describe(service, model));
  connection.respond(200, "application/json", to_text({{"object", "list"}, {"data", data}}));
}

void model(Service& service, Connection& connection, HttpRequest&& request, const Caller&) {
  if (auto error = loading(service)) return service.answer_error(connection, *error);
  auto name = percent_decoded(request.path().substr(std::string_view("/v1/models/").size()));
  for (auto served : service.directory()->getModels())
    if (name == served.getName().cStr()) return connection.respond(200, "application/json", to_text(describe(service, served)));
  service.answer_error(connection, make_error(ErrorClass::kNotFound, ErrorReason::kUnknownModel,
                                              "no such model; GET /v1/models lists those that are served", "model"));
}

}  // namespace troupe::gateway::endpoints
