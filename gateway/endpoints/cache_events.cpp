// GET /v1/cache/events: block events of all cache tiers, from where the client stopped.
#include "gateway/cache_events.h"

#include "gateway/endpoints/endpoints.h"
#include "gateway/error_body.h"
#include "gateway/query.h"
#include "gateway/service.h"
#include "messages/error_reasons.h"

namespace troupe::gateway::endpoints {

void cache_events(Service& service, Connection& connection, HttpRequest&& request, const Caller&) {
  std::optional<Error> error;
  QueryFields query(request, error);
  std::string after = query.text(fields::kEventsAfter);
  const bool tokens = query.boolean(fields::kEventTokens);
  const auto* header = request.find("last-event-id");  // a browser that comes back says where it was, whatever the URL says
  if (header != nullptr) after = *header;
  const auto position = after.empty() ? EventPosition{} : event_position(after);
  if (!position) query.fail(header != nullptr ? "Last-Event-ID" : fields::kEventsAfter.name, "must be the id of an event");
  if (error) return service.answer_error(connection, *error);
  if (service.draining()) return service.answer_error(connection, draining_error());
  const std::size_t most = service.limits().event_readers;
  if (service.cache_events().size() >= most)
    return service.answer_error(
        connection,
        make_error(ErrorClass::kOverloaded, ErrorReason::kQueueFull,
                   "at most " + std::to_string(most) + " clients may follow the cache's events at the same time", "", "", 1000));
  auto stream = std::make_unique<CacheEventStream>(service, connection, *position, tokens);
  auto& held = *stream;
  connection.hold(std::move(stream));
  held.begin();
  if (request.method == "HEAD") held.cut_short();  // all there is to say has been said
}

}  // namespace troupe::gateway::endpoints
