// ActorBase: what all actors have in common: how an exception ends an actor, what an unexpected message does, how a message is sent.
// An exception (broken invariant, kj::Exception of a bad message) is logged and ends this actor alone; its monitors decide what follows.
#pragma once
#include "actors/actor_context.h"
#include "messages/caf_types.h"
#include "runtime/base/log.h"

#include <caf/all.hpp>
#include <capnp/schema.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

namespace troupe::actors {

using ContextPtr = std::shared_ptr<const ActorContext>;
using TimePoint = std::chrono::steady_clock::time_point;

/// Schema name of a message, for the tap.
template <class Schema>
std::string schema_name() {
  return capnp::Schema::from<Schema>().getShortDisplayName().cStr();
}

/// Sends from a thread that is no actor, on behalf of one.
template <class Schema>
void tell_from(const ActorContext& context, std::string_view sender, const caf::actor& receiver, Message<Schema> message) {
  if (!receiver) return;
  if (context.tap) context.tap(sender, receiver.id(), schema_name<Schema>());
  caf::anon_send(receiver, std::move(message));
}

class ActorBase : public caf::event_based_actor {
 public:
  ActorBase(caf::actor_config& config, ContextPtr context, const char* role_name);
  // An actor that holds handles of others lets them go in on_exit(): two dead actors that hold each other would never be freed.
  const char* name() const override { return role_name_; }

 protected:
  const ActorContext& context() const { return *context_; }
  const ContextPtr& context_ptr() const { return context_; }
  ActorRegistry& registry() const { return *context_->registry; }
  /// Virtual in tests.
  TimePoint now() { return clock().now(); }

  /// A null receiver is nobody: the message is dropped, as for a dead one.
  template <class Schema>
  void tell(const caf::actor& receiver, Message<Schema> message) {
    if (!receiver) return;
    note<Schema>(receiver);
    send(receiver, std::move(message));
  }
  template <class Schema>
  void tell_first(const caf::actor& receiver, Message<Schema> message) {
    if (!receiver) return;
    note<Schema>(receiver);
    send<caf::message_priority::high>(receiver, std::move(message));
  }
  /// Sender of the message in hand; null if it was sent anonymously.
  caf::actor sender() { return caf::actor_cast<caf::actor>(current_sender()); }
  caf::actor self_handle() { return caf::actor_cast<caf::actor>(this); }
  void log(base::LogLevel level, std::string_view event, std::string_view fields = {}) const;

 private:
  template <class Schema>
  void note(const caf::actor& receiver) {
    if (context_->tap) context_->tap(role_name_, receiver.id(), schema_name<Schema>());
  }
  ContextPtr context_;
  const char* role_name_;
};

/// Text of an error of CAF or of an exception, for the log.
std::string describe(const caf::error& reason);
std::string describe(std::exception_ptr exception);

}  // namespace troupe::actors
