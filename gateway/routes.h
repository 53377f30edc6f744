// The way from a request to its endpoint: Host, Origin and key checks, then the one route table in routes.cpp. Loop thread.
#pragma once
#include "gateway/access.h"
#include "gateway/endpoints/endpoints.h"
#include "gateway/http_request.h"
#include "gateway/request_fields.h"

#include <span>
#include <string_view>

namespace troupe::gateway {

class Connection;
class Service;

struct Route {
  std::string_view method;
  std::string_view path;  // with "*" as its last character it is a prefix; "{id}" is one segment
  Guard guard;
  Endpoint endpoint;
  std::string_view summary;
  std::string_view request;   // schema of the body (api_schemas.h); empty = none is read
  std::string_view response;  // schema of the answer, or its media type
  bool streams = false;       // may answer with server-sent events, too
  std::span<const Field> query = {};
};
std::span<const Route> route_table();

/// The route, if there is one and the caller may use it; null: the refusal, or the answer of a preflight, has been written.
const Route* find_route(Service& service, Connection& connection, const HttpRequest& request, Caller& caller);
void dispatch(Service& service, Connection& connection, HttpRequest&& request);

}  // namespace troupe::gateway
