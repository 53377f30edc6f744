// POST /v1/completions.
#include "gateway/completion_answer.h"
#include "gateway/endpoints/endpoints.h"
#include "gateway/service.h"

namespace troupe::gateway::endpoints {

void completions(Service& service, Connection& connection, HttpRequest&& request, const Caller& caller) {
  if (auto error = service.refusal()) return service.answer_error(connection, *error);
  auto completion = service.parse(connection, request, parse_completion_request);
  if (!completion) return;
  if (auto error = service.refusal(completion->prompts.size())) return service.answer_error(connection, *error);
  for (auto& prompt : completion->prompts)
    if (auto error = service.prepare(prompt, caller, connection.id())) return service.answer_error(connection, *error);
  if (completion->stream)
    connection.hold(std::make_unique<CompletionStream>(service, connection, std::move(*completion)));
  else
    connection.hold(std::make_unique<CompletionAnswer>(service, connection, std::move(*completion)));
}

}  // namespace troupe::gateway::endpoints
