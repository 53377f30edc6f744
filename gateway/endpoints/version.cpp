// GET /version and GET /openapi.json.
#include "gateway/endpoints/endpoints.h"
#include "gateway/error_body.h"
#include "gateway/openapi.h"
#include "gateway/service.h"
#include "runtime/base/version.h"

namespace troupe::gateway::endpoints {

void version(Service&, Connection& connection, HttpRequest&&, const Caller&) {
  connection.respond(200, "application/json", to_text({{"version", base::version()}}));
}

void openapi(Service& service, Connection& connection, HttpRequest&&, const Caller&) {
  connection.respond(200, "application/json", to_text(openapi_document(service.limits())));
}

}  // namespace troupe::gateway::endpoints
