// See prefix_call.h.
#include "gateway/prefix_call.h"

#include "gateway/error_body.h"
#include "gateway/service.h"
#include "messages/error_reasons.h"

#include <algorithm>
#include <utility>

namespace troupe::gateway {
namespace {

// No token of the one begins a token of the other, so that no word of a user counts as a part of the prefix.
constexpr const char* kUserTexts[] = {"Hello", "1"};

}  // namespace

std::vector<TokenId> common_prefix(const std::vector<TokenId>& a, const std::vector<TokenId>& b) {
  return {a.begin(), std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first};
}

std::optional<Error> PrefixCall::begin() {
  ModelRequest request;
  request.endpoint = messages::Endpoint::TOKENIZE;
  request.items = {{"system", text_, {}, {}, {}}, {"user", kUserTexts[first_ ? 1 : 0], {}, {}, {}}};
  if (auto error = service_.prepare(request, Caller{}, 0)) return error;
  call_.emplace(service_.live(), request, *this);
  return std::nullopt;
}

void PrefixCall::finished(messages::RequestFinished::Reader message) {
  call_->ended();
  auto outcome = message.getOutcome();
  if (outcome.isError()) return end(from_wire(outcome.getError()));
  if (!outcome.isTokens()) return end(internal_error());
  std::vector<TokenId> tokens;
  tokens.reserve(outcome.getTokens().size());
  for (const auto token : outcome.getTokens()) tokens.push_back(token);
  if (!first_) {
    first_ = std::move(tokens);
    if (auto error = begin()) end(*error);
    return;
  }
  auto prefix = common_prefix(*first_, tokens);
  if (prefix.empty())
    return end(make_error(ErrorClass::kInvalidRequest, ErrorReason::kTemplate,
                          "text: the model's template puts nothing before the user's words", "text"));
  const std::uint32_t context = service_.context_tokens("");
  if (prefix.size() >= context)
    return end(make_error(
        ErrorClass::kContextTooLong, ErrorReason::kContextLength,
        "text: has " + std::to_string(prefix.size()) + " tokens with the model's template; the context holds " + std::to_string(context),
        "text"));
  end(std::move(prefix));
}

void PrefixCall::end(Result<std::vector<TokenId>> result) {
  const auto done = std::move(done_);  // it may destroy this
  done(std::move(result));
}

}  // namespace troupe::gateway
