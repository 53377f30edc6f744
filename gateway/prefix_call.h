// PrefixCall: the token ids that all conversations with one system message begin with. Sessions render and tokenize two of them, which
// differ in the user's words alone; what the two lists share is the prefix, cut where the user's turn begins and at a token. Owned by who
// waits for it, who ends it by destroying it; loop thread. Invariant: `done` is called once, as the last thing, and never from inside
// begin().
#pragma once
#include "gateway/live_requests.h"
#include "messages/error.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace troupe::gateway {

class Service;

class PrefixCall final : public EngineSink {
 public:
  using Done = std::function<void(Result<std::vector<TokenId>>)>;
  PrefixCall(Service& service, std::string text, Done done) : service_(service), text_(std::move(text)), done_(std::move(done)) {}
  /// Asks for the first of the two. Errors: no new work is taken; then `done` is not called.
  std::optional<Error> begin();

  // EngineSink.
  void admitted(messages::RequestAdmitted::Reader) override {}
  void delta(messages::TokenDelta::Reader) override {}
  void finished(messages::RequestFinished::Reader message) override;

 private:
  void end(Result<std::vector<TokenId>> result);
  Service& service_;
  std::string text_;
  Done done_;
  std::optional<std::vector<TokenId>> first_;
  std::optional<EngineCall> call_;
};

/// What both begin with.
std::vector<TokenId> common_prefix(const std::vector<TokenId>& a, const std::vector<TokenId>& b);

}  // namespace troupe::gateway
