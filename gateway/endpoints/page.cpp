// GET / and its assets: the chat page, built into the binary (gateway/page). It loads nothing from elsewhere.
#include "gateway/endpoints/endpoints.h"
#include "gateway/page_files.h"
#include "gateway/service.h"

namespace troupe::gateway::endpoints {
namespace {

constexpr std::string_view kHeaders =
    "Cache-Control: no-cache\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n"
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self' ws: wss:; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n";

}  // namespace

void page(Service&, Connection& connection, HttpRequest&& request, const Caller&) {
  auto path = request.path();
  for (const auto& file : page_files())
    if (path == file.path) return connection.respond(200, file.type, file.content, kHeaders);
}

}  // namespace troupe::gateway::endpoints
