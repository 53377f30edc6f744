// The way from a request to its endpoint: Host, Origin and key checks, then the one route table in routes.cpp. Loop thread.
#pragma once
#include "gateway/access.h"
#include "gateway/http_request.h"

namespace troupe::gateway {

class Connection;
class Service;

void dispatch(Service& service, Connection& connection, HttpRequest&& request);

}  // namespace troupe::gateway
