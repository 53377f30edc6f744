// GET /v1/responses: the upgrade to a Responses WebSocket. Model and load are judged by each response.create, not here.
#include "gateway/endpoints/endpoints.h"
#include "gateway/responses_socket.h"
#include "gateway/service.h"
#include "messages/error_reasons.h"

namespace troupe::gateway::endpoints {

void responses(Service& service, Connection& connection, HttpRequest&& request, const Caller& caller) {
  if (auto error = service.refusal(); error && error->error_class == ErrorClass::kUnavailable)
    return service.answer_error(connection, *error);
  if (!request.has_token("upgrade", "websocket")) return connection.fail(426, "this URL speaks the Responses API over WebSocket");
  connection.upgrade(request, choose_subprotocol(request), std::make_unique<ResponsesSocket>(service, connection, caller));
}

}  // namespace troupe::gateway::endpoints
