// Gateway <-> RequestSession: messages/request.capnp from and to the session's plain values. Pure functions; any thread.
#pragma once
#include "messages/error.h"
#include "messages/message.h"
#include "messages/request.capnp.h"
#include "runtime/session/generation.h"
#include "runtime/session/request.h"

#include <optional>
#include <string>
#include <vector>

namespace troupe::actors::wire {

session::Request decode(messages::SubmitRequest::Reader submit);
Message<messages::SubmitRequest> encode(const session::Request& request);

Message<messages::RequestAdmitted> request_admitted(RequestId request, std::uint32_t prompt_tokens, std::uint32_t queued_requests);
Message<messages::TokenDelta> token_delta(RequestId request, std::uint32_t number, const std::vector<session::Piece>& pieces);

/// What a RequestFinished tells beside its outcome.
struct Usage {
  std::uint32_t prompt_tokens = 0, output_tokens = 0;
  std::optional<kv::CacheReport> cache;
  std::vector<TokenId> prompt_ids;  // where its log-probabilities were asked for
  schedule::TopLogprobs prompt_logprobs;
  std::vector<std::string> prompt_texts;  // bytes of prompt_ids, then of prompt_logprobs.ids
  bool numerics_changed = false;
  std::optional<Error> store_error;
};
Message<messages::RequestFinished> request_finished(RequestId request, const std::vector<session::ChoiceEnd>& ends, const Usage& usage);
Message<messages::RequestFinished> request_failed(RequestId request, const Error& error, const Usage& usage);
/// `texts`: bytes of each token, or none; `text`: rendered or detokenized.
Message<messages::RequestFinished> request_tokenized(RequestId request, const std::vector<TokenId>& tokens,
                                                     const std::vector<std::string>& texts, const std::optional<std::string>& text);

}  // namespace troupe::actors::wire
