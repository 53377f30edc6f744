// See store_calls.h.
#include "gateway/store_calls.h"

#include "gateway/error_body.h"
#include "gateway/service.h"
#include "messages/error_reasons.h"

namespace troupe::gateway {
namespace {

constexpr std::uint64_t kPatienceMs = 10'000;  // a disk may take seconds

}  // namespace

std::uint64_t StoreCalls::add(StoreSink& asker) {
  askers_[++last_] = &asker;
  return last_;
}

void StoreCalls::answered(const StoreAnswer& answer) {
  const auto query = std::visit([](const auto& message) { return message->getQuery(); }, answer);
  if (auto found = askers_.find(query); found != askers_.end()) found->second->answered(answer);
}

StoreAnswerer::StoreAnswerer(Service& service, Connection& connection, const Ask& ask, Take take, std::function<void(Error)> on_missing)
    : service_(service),
      connection_(connection),
      query_(service.store_calls().add(*this)),
      asked_at_(service.now()),
      take_(std::move(take)),
      on_missing_(std::move(on_missing)) {
  service.store_calls().ask(ask(query_));
}

StoreAnswerer::~StoreAnswerer() { end(); }

void StoreAnswerer::end() { service_.store_calls().remove(query_); }

void StoreAnswerer::hung_up() { end(); }

void StoreAnswerer::answered(const StoreAnswer& answer) {
  if (const auto* missing = std::get_if<Message<messages::ResponseMissing>>(&answer)) {
    end();
    return on_missing_(from_wire((*missing)->getError()));
  }
  if (take_(answer)) end();
}

void StoreAnswerer::tick(std::uint64_t now) {
  if (now - asked_at_ < kPatienceMs) return;
  end();
  service_.answer_error(connection_, make_error(ErrorClass::kUnavailable, ErrorReason::kActorDied,
                                                "the session store does not answer; try again soon", "", "", kRetryMs));
}

void StoreAnswerer::cut_short() {
  end();
  service_.answer_error(connection_, cut_by_drain());
}

}  // namespace troupe::gateway
