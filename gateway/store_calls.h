// StoreCalls: questions to the session store that wait for an answer, by query. StoreAnswerer: the Exchange of a request that needs no
// more than one such answer. Loop thread. Invariants: an answer reaches who asked, or nobody; a client who waits too long is told so.
#pragma once
#include "gateway/exchange.h"
#include "gateway/live_requests.h"
#include "messages/error.h"

#include <functional>
#include <string>
#include <unordered_map>

namespace troupe::gateway {

class Service;

/// Takes answers of the session store; it takes its number back before it goes.
class StoreSink {
 public:
  virtual ~StoreSink() = default;
  virtual void answered(const StoreAnswer& answer) = 0;
};

class StoreCalls {
 public:
  explicit StoreCalls(LiveRequests& live) : live_(live) {}
  /// The number that a question of `asker` bears.
  std::uint64_t add(StoreSink& asker);
  void remove(std::uint64_t query) { askers_.erase(query); }
  void ask(StoreQuestion question) { live_.engine()->ask_store(std::move(question)); }
  void answered(const StoreAnswer& answer);

 private:
  LiveRequests& live_;
  std::unordered_map<std::uint64_t, StoreSink*> askers_;
  std::uint64_t last_ = 0;
};

class StoreAnswerer final : public Exchange, public StoreSink {
 public:
  using Ask = std::function<StoreQuestion(std::uint64_t query)>;
  /// Writes the answer to the connection, or says that more is to come. An error has been answered already, unless it is asked for.
  using Take = std::function<bool(const StoreAnswer&)>;
  /// Asks at once. Errors of the store pass through `on_missing` on their way to the client.
  StoreAnswerer(Service& service, Connection& connection, const Ask& ask, Take take, std::function<void(Error)> on_missing);
  ~StoreAnswerer() override;
  void hung_up() override;
  void tick(std::uint64_t now) override;
  void cut_short() override;
  void answered(const StoreAnswer& answer) override;

 private:
  void end();
  Service& service_;
  Connection& connection_;
  std::uint64_t query_;
  std::uint64_t asked_at_;
  Take take_;
  std::function<void(Error)> on_missing_;
};

}  // namespace troupe::gateway
