// The API described from its own tables: the route table and the schemas of bodies. Pure, any thread.
#pragma once
#include "gateway/limits.h"
#include "gateway/routes.h"

#include <nlohmann/json.hpp>

#include <string>

namespace troupe::gateway {

/// OpenAPI 3.1, with the limits of this server.
nlohmann::json openapi_document(const Limits& limits);
/// docs/http-api.md, with the default limits; `troupe api` prints it and a test compares the two.
std::string api_markdown();
/// A row's path with its wildcard as a parameter: "/v1/models/*" is "/v1/models/{id}".
std::string openapi_path(const Route& route);

}  // namespace troupe::gateway
