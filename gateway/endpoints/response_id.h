// {id} of the URLs of stored responses, and what is said where it is not found. Pure, any thread.
#pragma once
#include "gateway/http_request.h"
#include "messages/error.h"

#include <string>

namespace troupe::gateway::endpoints {

/// Of /v1/responses/{id} and of /v1/responses/{id}/<rest>.
std::string response_id_of(const HttpRequest& request);
/// In the same words for an id that never was, one of another key, and one that is gone.
Error response_id_not_found(const std::string& id);

}  // namespace troupe::gateway::endpoints
