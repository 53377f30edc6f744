// EnginePort: all the loop thread knows of the engine, in messages. gateway_actor.cpp (the one CAF file here) implements it;
// tests give a fake. Calls never block and may come from the loop thread only; answers come back through Server::post.
#pragma once
#include "messages/cache.capnp.h"
#include "messages/ids.h"
#include "messages/message.h"
#include "messages/request.capnp.h"
#include "messages/session_store.capnp.h"

#include <variant>

namespace troupe::gateway {

/// What the session store can be asked; `query` is the asker's.
using StoreQuestion = std::variant<Message<messages::LookUpResponse>, Message<messages::ListResponses>, Message<messages::PinResponse>,
                                   Message<messages::DropResponse>>;
/// What it says; a response that is found may come in several messages.
using StoreAnswer = std::variant<Message<messages::ResponseFound>, Message<messages::ResponsesListed>, Message<messages::ResponsePinned>,
                                 Message<messages::ResponseDropped>, Message<messages::ResponseMissing>>;

class EnginePort {
 public:
  virtual ~EnginePort() = default;
  /// Spawns a RequestSession. It answers with RequestAdmitted, TokenDelta*, exactly one RequestFinished; if it dies, the port makes the
  /// one terminal RequestFinished{error}.
  virtual void submit(Message<messages::SubmitRequest> request) = 0;
  virtual void cancel(RequestId request, bool silent) = 0;
  virtual void grant_credit(RequestId request, std::uint32_t deltas) = 0;
  virtual void connection_closed(std::uint64_t connection) = 0;
  /// A stored response is no longer wanted: nobody may continue it.
  virtual void drop_response(const Hash128& owner, const std::string& id) = 0;
  /// Answered by store_answered(), or never where the store has died; a query of 0 is not answered.
  virtual void ask_store(StoreQuestion question) = 0;
  /// Answered by block_events(), or never where the cache tier has died.
  virtual void read_block_events(Message<messages::ReadBlockEvents> read) = 0;
};

/// Where the engine's answers go: any thread; handed to the loop thread in order.
class EngineEvents {
 public:
  virtual ~EngineEvents() = default;
  virtual void admitted(Message<messages::RequestAdmitted> message) = 0;
  virtual void delta(Message<messages::TokenDelta> message) = 0;
  virtual void finished(Message<messages::RequestFinished> message) = 0;
  virtual void store_answered(StoreAnswer answer) = 0;
  virtual void block_events(Message<messages::BlockEvents> events) = 0;
};

}  // namespace troupe::gateway
