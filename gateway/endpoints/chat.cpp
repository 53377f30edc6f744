// POST /v1/chat/completions.
#include "gateway/chat_answer.h"
#include "gateway/endpoints/endpoints.h"
#include "gateway/service.h"

namespace troupe::gateway::endpoints {

void chat_completions(Service& service, Connection& connection, HttpRequest&& request, const Caller& caller) {
  if (auto error = service.refusal()) return service.answer_error(connection, *error);
  auto chat = service.parse(connection, request, parse_chat_request);
  if (!chat) return;
  if (auto error = service.prepare(chat->engine, caller, connection.id())) return service.answer_error(connection, *error);
  if (chat->stream)
    connection.hold(std::make_unique<ChatStream>(service, connection, std::move(*chat)));
  else
    connection.hold(std::make_unique<ChatAnswer>(service, connection, std::move(*chat)));
}

}  // namespace troupe::gateway::endpoints
