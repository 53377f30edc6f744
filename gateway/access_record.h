// AccessRecord: what the access log tells of one request, and the ids of requests. Never holds prompt text, answers, header values or
// the query of a URL (`log.no-text`). Owned by the connection; loop thread.
#pragma once
#include "gateway/http_request.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace troupe::gateway {

struct AccessRecord {
  enum class Ending { kWhole, kHungUp, kSlowReader, kMemory };
  std::string id;           // of `x-request-id`; empty: no request is open
  std::string method;       // empty where no request could be read
  std::string_view route;   // of the route table, "/v1/models/*"; empty: none
  std::string peer;         // address
  std::string key;          // first 8 digits of the key's hash, or empty
  int status = 0;           // 0: none was sent
  std::uint64_t bytes = 0;  // of the answer, before TLS
  double ms = 0;            // from the request's head to the end of the answer; of a WebSocket, to its close
  Ending ending = Ending::kWhole;
};

/// "method=GET route=/v1/models status=200 ..." for base::log_access.
std::string log_fields(const AccessRecord& record);

/// Ids for requests that bring none: "req_" and digits, unique among all processes.
class RequestIds {
 public:
  RequestIds();
  std::string next();

 private:
  std::string prefix_;
  std::uint64_t number_ = 0;
};

/// The client's own `x-request-id` if it is sane (1 to 128 of [A-Za-z0-9._-]), else empty.
std::string_view given_request_id(const HttpRequest& request);

}  // namespace troupe::gateway
