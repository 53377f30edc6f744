#include "actors/session_store_actor.h"

#include "actors/actor_base.h"
#include "actors/response_pins.h"
#include "actors/timers.h"
#include "actors/wire/common.h"
#include "actors/wire/session_store.h"
#include "messages/admission.capnp.h"
#include "messages/error_reasons.h"
#include "runtime/base/metric_names.h"
#include "runtime/session/response_store.h"

#include <algorithm>
#include <ctime>
#include <map>
#include <optional>
#include <utility>

namespace troupe::actors {
namespace {

constexpr std::chrono::seconds kRenew{30};
constexpr std::chrono::seconds kPinTime{2};  // for the router's answer

class SessionStoreActor final : public ActorBase {
 public:
  SessionStoreActor(caf::actor_config& config, SessionStoreDependencies dependencies)
      : ActorBase(config, std::move(dependencies.context), "SessionStore"),
        store_(std::in_place, dependencies.default_ttl, dependencies.max_tokens, dependencies.log),
        durable_(dependencies.log.has_value()),
        stored_(context().metrics->gauge(base::metric::kStoredResponses, "responses in the session store")),
        disk_bytes_(context().metrics->gauge(base::metric::kStoredResponseDiskBytes, "bytes of the responses that are kept on disk")) {
    set_down_handler([this](const caf::down_msg& down) {
      // A session that died between pages: its partial response is dropped.
      std::erase_if(partial_, [&](const auto& entry) { return entry.first.first == down.source; });
    });
  }

  caf::behavior make_behavior() override {
    if (durable_) send(this, RenewAtom::value);  // opens the file, and finds the pins of the process before
    return {
        [this](const Message<messages::StoreResponse>& message) { on_store(*message); },
        [this](const Message<messages::LookUpResponse>& message) { on_look_up(*message); },
        [this](const Message<messages::DropResponse>& message) { on_drop(*message); },
        [this](const Message<messages::ListResponses>& message) { on_list(*message); },
        [this](const Message<messages::PinResponse>& message) { on_pin(*message); },
        [this](const Message<messages::PathPinned>& message) { on_path_pinned(*message); },
        [this](ReplyAtom, std::uint32_t number) { on_overdue(number); },
        [this](RenewAtom) { on_renew(); },
        [this](const Message<messages::ConnectionClosed>& message) {
          store_->close_connection(message->getConnection());
          report();
        },
    };
  }
  void on_exit() override {
    store_.reset();  // a successor may open the file
    questions_.clear();
  }

 private:
  /// A pin or a measurement that the router has been asked for.
  struct Question {
    std::uint32_t number = 0;
    std::uint64_t pin = 0;
    caf::actor asker = {};  // null: a renewal
    std::uint64_t query = 0;
    Hash128 owner = {};
    std::string id = {};
    std::uint32_t ttl = 0, tokens = 0;
    bool measure = false;
  };

  session::StoreTime time() { return {now(), static_cast<session::UnixSeconds>(std::time(nullptr))}; }

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
    const auto stored = store_->store(*std::move(response), time());
    tell(sender(), Message<messages::ResponseStored>::build([&](messages::ResponseStored::Builder reply) {
           reply.setQuery(page.getQuery());
           if (!stored) wire::write(stored.error(), reply.initError());
         }));
    report();
  }

  void on_look_up(messages::LookUpResponse::Reader look_up) {
    const auto found = store_->find(wire::decode(look_up.getOwner()), wire::to_view(look_up.getId()), look_up.getConnection(), time());
    if (!found) return missing(sender(), look_up.getQuery(), found.error());
    for (auto& page : wire::encode(look_up.getQuery(), *found, look_up.getWantTokens(), look_up.getWantRecord())) tell(sender(), page);
  }

  void on_drop(messages::DropResponse::Reader drop) {
    const auto dropped = store_->drop(wire::decode(drop.getOwner()), wire::to_view(drop.getId()), drop.getSubtree(), time());
    if (!dropped) return missing(sender(), drop.getQuery(), dropped.error());
    tell(sender(), Message<messages::ResponseDropped>::build([&](messages::ResponseDropped::Builder reply) {
           reply.setQuery(drop.getQuery());
           auto ids = reply.initIds(static_cast<unsigned>(dropped->size()));
           for (unsigned i = 0; i < ids.size(); ++i) ids.set(i, wire::to_text((*dropped)[i]));
         }));
    for (const auto& pin : pins_.keep_only(store_->pinned(time()))) ask_router({.pin = pin.number}, pin.domain, pin.keys);
    report();
  }

  void on_list(messages::ListResponses::Reader query) {
    const std::size_t limit = query.getLimit();
    auto listed = store_->list(wire::decode(query.getOwner()), wire::to_view(query.getAfter()), limit + 1, time());
    const bool more = listed.size() > limit;
    if (more) listed.pop_back();
    tell(sender(), wire::encode(query.getQuery(), listed, more));
  }

  void on_pin(messages::PinResponse::Reader pin) {
    Question question;
    question.owner = wire::decode(pin.getOwner());
    question.id = wire::to_string(pin.getId());
    question.query = pin.getQuery();
    question.asker = sender();
    question.ttl = pin.getTtlSeconds();
    question.measure = pin.getMeasureOnly();
    const auto found = store_->find(question.owner, question.id, 0, time());
    if (!found) return missing(sender(), pin.getQuery(), found.error());
    question.pin = pin_number(question.owner, question.id);
    question.tokens = static_cast<std::uint32_t>(found->tokens.size());
    ask_router(std::move(question), found->key_domain, kv::block_keys(found->key_domain, found->tokens));
  }

  void ask_router(Question question, const Hash128& domain, const std::vector<BlockKey>& keys) {
    question.number = ++last_number_;
    tell(registry().find(Role::ROUTER), Message<messages::PinPath>::build([&](messages::PinPath::Builder path) {
           path.setPin(question.pin);
           wire::write(domain, path.initChain().initDomain());
           wire::write(keys, path.getChain().initKeys(static_cast<unsigned>(keys.size())));
           path.setTtlSeconds(question.ttl);
           path.setMeasureOnly(question.measure);
         }));
    delayed_send(this, kPinTime, ReplyAtom::value, question.number);
    questions_.push_back(std::move(question));
  }

  void on_path_pinned(messages::PathPinned::Reader pinned) {
    // The router answers those of one pin in order.
    const auto found = std::find_if(questions_.begin(), questions_.end(), [&](const Question& q) { return q.pin == pinned.getPin(); });
    if (found == questions_.end()) return;
    const Question question = std::move(*found);
    questions_.erase(found);
    if (!question.asker) return;
    if (pinned.hasError()) return missing(question.asker, question.query, wire::decode(pinned.getError()));
    if (!question.measure) {
      const auto kept = store_->pin(question.owner, question.id, std::chrono::seconds(question.ttl), time());
      if (!kept) return missing(question.asker, question.query, kept.error());
      remember_pins();
    }
    tell(question.asker, Message<messages::ResponsePinned>::build([&](messages::ResponsePinned::Builder reply) {
           reply.setQuery(question.query);
           reply.setTokens(question.tokens);
           reply.setUsage(pinned.getUsage());
           const auto usage = pinned.getUsage();
           const auto somewhere = usage.getDevice() + usage.getHost() + usage.getDisk();
           reply.getUsage().setComputed(question.tokens - std::min(question.tokens, somewhere));
           reply.setBytes(pinned.getBytes());
         }));
  }

  void on_overdue(std::uint32_t number) {
    const auto found = std::find_if(questions_.begin(), questions_.end(), [&](const Question& q) { return q.number == number; });
    if (found == questions_.end()) return;
    const Question question = std::move(*found);
    questions_.erase(found);
    missing(question.asker, question.query,
            make_error(ErrorClass::kUnavailable, ErrorReason::kActorDied, "The cache does not answer; retry shortly.", {}, {}, 1000));
  }

  /// What the router is told of again, until it ends.
  void remember_pins() {
    for (const auto& pin : store_->pinned(time()))
      if (!pins_.knows(pin))
        if (const auto found = store_->find(pin.owner, pin.id, 0, time()))
          pins_.add(pin, found->key_domain, kv::block_keys(found->key_domain, found->tokens));
    if (pins_.empty() || durable_ || renewing_) return;
    renewing_ = true;
    delayed_send(this, kRenew, RenewAtom::value);
  }

  void on_renew() {
    renewing_ = false;
    store_->expire(time());
    const auto pinned = store_->pinned(time());
    for (const auto& pin : pins_.keep_only(pinned)) ask_router({.pin = pin.number}, pin.domain, pin.keys);
    remember_pins();
    for (const auto& pin : pinned)
      if (const auto* active = pins_.find(pin)) ask_router({.pin = active->number, .ttl = pin.seconds_left}, active->domain, active->keys);
    if (durable_) delayed_send(this, kRenew, RenewAtom::value);
    report();
  }

  void missing(const caf::actor& asker, std::uint64_t query, const Error& error) {
    tell(asker, Message<messages::ResponseMissing>::build([&](messages::ResponseMissing::Builder reply) {
           reply.setQuery(query);
           wire::write(error, reply.initError());
         }));
  }

  void report() {
    stored_.set(static_cast<double>(store_->size()));
    disk_bytes_.set(static_cast<double>(store_->disk_bytes()));
  }

  std::optional<session::ResponseStore> store_;
  const bool durable_;
  bool renewing_ = false;
  ResponsePins pins_;
  std::vector<Question> questions_;  // oldest first
  std::uint32_t last_number_ = 0;
  std::map<std::pair<caf::actor_addr, std::uint64_t>, wire::PageJoiner<session::StoredResponse>> partial_;
  base::Gauge& stored_;
  base::Gauge& disk_bytes_;
};

}  // namespace

caf::actor spawn_session_store(caf::actor_system& system, SessionStoreDependencies dependencies) {
  if (dependencies.log) return system.spawn<SessionStoreActor, caf::detached>(std::move(dependencies));
  return system.spawn<SessionStoreActor>(std::move(dependencies));
}

}  // namespace troupe::actors
