// RestoredResponse: a response of an earlier life of the server, or one that the gateway no longer holds, as an object again: from what the
// session store keeps to continue it. Its text and usage are as they were; log-probabilities and the fields that only repeated the request
// are gone. Pure; any thread.
#pragma once
#include "messages/error.h"
#include "messages/session_store.capnp.h"

#include <string>

namespace troupe::gateway {

class RestoredResponse {
 public:
  explicit RestoredResponse(std::string id) : id_(std::move(id)) {}
  /// Pages in order; true with the last.
  bool add(messages::ResponseFound::Reader page);
  /// JSON text. Error: a record that nobody here has written.
  Result<std::string> object() const;

 private:
  std::string id_, model_, record_;
  std::uint32_t prompt_tokens_ = 0;
  std::uint64_t tokens_ = 0;
};

}  // namespace troupe::gateway
