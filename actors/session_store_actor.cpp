#include "actors/session_store_actor.h"

#include "actors/actor_base.h"
#include "actors/wire/common.h"
#include "actors/wire/session_store.h"
#include "messages/error_reasons.h"
#include "runtime/base/metric_names.h"

#include <map>
#include <utility>

namespace troupe::actors {
namespace {

class SessionStoreActor final : public ActorBase {
 public:
  SessionStoreActor(caf::actor_config& config, SessionStoreDependencies dependencies)
      : ActorBase(config, std::move(dependencies.context), "SessionStore"),
        tree_(dependencies.default_ttl, dependencies.max_tokens),
        stored_(context().metrics->gauge(base::metric::kStoredResponses, "responses in the session store")) {
    set_down_handler([this](const caf::down_msg& down) {
      // A session that died between pages: its partial response is dropped.
      std::erase_if(partial_, [&](const auto& entry) { return entry.first.first == down.source; });
    });
  }

  caf::behavior make_behavior() override {
    return {
        [this](const Message<messages::StoreResponse>& message) { on_store(*message); },
        [this](const Message<messages::LookUpResponse>& message) { on_look_up(*message); },
        [this](const Message<messages::DropResponse>& message) { on_drop(*message); },
        [this](const Message<messages::ListResponses>& message) { on_list(*message); },
        [this](const Message<messages::PinResponse>& message) {
          missing(message->getQuery(), make_error(ErrorClass::kInvalidRequest, ErrorReason::kUnsupported, "pins need a host or disk tier"));
        },
        [this](const Message<messages::ConnectionClosed>& message) {
          tree_.close_connection(message->getConnection());
          report();
        },
    };
  }

 private:
  void on_store(messages::StoreResponse::Reader page) {
    const std::pair key{sender().address(), page.getQuery()};
    auto& joiner = partial_[key];
    if (page.getPage().getIndex() == 0 && page.getPage().getCount() > 1) monitor(sender());
    auto response = joiner.add(page);
    if (joiner.broken()) {
      partial_.erase(key);
      return;  // the sender's wait for ResponseStored ends in its own time
    }
    if (!response) return;
    partial_.erase(key);
    if (page.getPage().getCount() > 1) demonitor(sender());
    const bool disk = response->retention == session::Retention::kDisk;
    auto stored = tree_.store(*std::move(response), now());
    if (stored && disk)
      stored = make_error(ErrorClass::kStorageFailed, ErrorReason::kUnclassified, "no disk store is configured; kept in memory");
    tell(sender(), Message<messages::ResponseStored>::build([&](messages::ResponseStored::Builder reply) {
           reply.setQuery(page.getQuery());
           if (!stored) wire::write(stored.error(), reply.initError());
         }));
    report();
  }

  void on_look_up(messages::LookUpResponse::Reader look_up) {
    const auto found = tree_.find(wire::decode(look_up.getOwner()), wire::to_view(look_up.getId()), look_up.getConnection(), now());
    if (!found) return missing(look_up.getQuery(), found.error());
    for (auto& page : wire::encode(look_up.getQuery(), *found, look_up.getWantTokens(), look_up.getWantRecord())) tell(sender(), page);
  }

  void on_drop(messages::DropResponse::Reader drop) {
    const auto dropped = tree_.drop(wire::decode(drop.getOwner()), wire::to_view(drop.getId()), drop.getSubtree(), now());
    if (!dropped) return missing(drop.getQuery(), dropped.error());
    tell(sender(), Message<messages::ResponseDropped>::build([&](messages::ResponseDropped::Builder reply) {
           reply.setQuery(drop.getQuery());
           reply.setResponses(*dropped);
         }));
    report();
  }

  void on_list(messages::ListResponses::Reader query) {
    const std::size_t limit = query.getLimit();
    auto listed = tree_.list(wire::decode(query.getOwner()), wire::to_view(query.getAfter()), limit + 1, now());
    const bool more = listed.size() > limit;
    if (more) listed.pop_back();
    tell(sender(), Message<messages::ResponsesListed>::build([&](messages::ResponsesListed::Builder reply) {
           reply.setQuery(query.getQuery());
           reply.setMore(more);
           auto entries = reply.initEntries(static_cast<unsigned>(listed.size()));
           for (unsigned i = 0; i < entries.size(); ++i) {
             entries[i].setId(wire::to_text(listed[i].id));
             if (!listed[i].parent.empty()) entries[i].setParent(wire::to_text(listed[i].parent));
             entries[i].setPathTokens(listed[i].path_tokens);
             entries[i].setOwnTokens(listed[i].own_tokens);
             entries[i].setTtlSecondsLeft(listed[i].ttl_seconds_left);
             entries[i].setRetention(static_cast<messages::Retention>(listed[i].retention));
           }
         }));
  }

  void missing(std::uint64_t query, const Error& error) {
    tell(sender(), Message<messages::ResponseMissing>::build([&](messages::ResponseMissing::Builder reply) {
           reply.setQuery(query);
           wire::write(error, reply.initError());
         }));
  }

  void report() { stored_.set(static_cast<double>(tree_.size())); }

  session::SessionTree tree_;
  std::map<std::pair<caf::actor_addr, std::uint64_t>, wire::PageJoiner<session::StoredResponse>> partial_;
  base::Gauge& stored_;
};

}  // namespace

caf::actor spawn_session_store(caf::actor_system& system, SessionStoreDependencies dependencies) {
  return system.spawn<SessionStoreActor>(std::move(dependencies));
}

}  // namespace troupe::actors
