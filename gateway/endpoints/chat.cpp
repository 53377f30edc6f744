// POST /v1/chat/completions.
#include "gateway/chat_answer.h"
#include "gateway/endpoints/endpoints.h"
#include "gateway/service.h"

namespace troupe::gateway::endpoints {

void chat_completions(Service& service, Connection& connection, HttpRequest&& request, const Caller& caller) {
  if (auto error = service.refusal()) return service.answer_error(connection, *error);
  auto body = parse_json_object(request.body, service.limits().json_depth);
  if (!body.ok()) return service.answer_error(connection, body.error());
  auto chat = parse_chat_request(*body, service.limits());
  if (!chat.ok()) return service.answer_error(connection, chat.error());
  if (auto error = service.prepare(chat->engine, caller, connection.id())) return service.answer_error(connection, *error);
  if (chat->stream)
    connection.hold(std::make_unique<ChatStream>(service, connection, std::move(*chat)));
  else
    connection.hold(std::make_unique<ChatAnswer>(service, connection, std::move(*chat)));
}

}  // namespace troupe::gateway::endpoints
