// /v1/responses: the WebSocket, new responses over HTTP, and stored ones: read, resumed, cancelled, their input.
#include "gateway/endpoints/endpoints.h"
#include "gateway/endpoints/response_id.h"
#include "gateway/error_body.h"
#include "gateway/query.h"
#include "gateway/response_answers.h"
#include "gateway/response_shelf.h"
#include "gateway/responses_socket.h"
#include "gateway/service.h"
#include "messages/error_reasons.h"

#include <algorithm>

namespace troupe::gateway::endpoints {
namespace {

constexpr std::string_view kPrefix = "/v1/responses/";

Result<ResponsesRequest> parse_http_request(const JsonBody& body, const Limits& limits) {
  return parse_responses_request(body, limits, ResponsesTransport::kHttp);
}

std::shared_ptr<ResponseRun> find(Service& service, Connection& connection, const HttpRequest& request, const Caller& caller) {
  auto id = response_id_of(request);
  auto run = service.shelf().find(caller.owner, id);
  if (!run) service.answer_error(connection, response_id_not_found(id));
  return run;
}

Error bad_start(std::string text) {
  return make_error(ErrorClass::kInvalidRequest, ErrorReason::kInvalidValue, "starting_after " + std::move(text), "starting_after");
}

std::optional<Error> stream_fault(const ResponseRun& run, std::uint64_t next, const Limits& limits) {
  if (!run.streamed())
    return make_error(ErrorClass::kInvalidRequest, ErrorReason::kInvalidValue,
                      "stream must be false: this response was not made as a stream, so it has no events", "stream");
  if (next > run.events().end()) return bad_start("must be the sequence_number of an event that was sent");
  if (next < run.events().first())
    return bad_start("must be at least " + std::to_string(run.events().first() - 1) +
                     ": earlier events are no longer kept; get the response without stream once it has ended");
  if (run.readers() >= limits.response_readers)
    return make_error(ErrorClass::kOverloaded, ErrorReason::kQueueFull,
                      "at most " + std::to_string(limits.response_readers) + " clients may follow a response at the same time", "stream",
                      "", 1000);
  return std::nullopt;
}

void resume(Service& service, Connection& connection, std::shared_ptr<ResponseRun> run, std::uint64_t next) {
  if (auto error = stream_fault(*run, next, service.limits())) return service.answer_error(connection, *error);
  auto stream = std::make_unique<ResponseStream>(service, connection, std::move(run), next);
  auto& held = *stream;
  connection.hold(std::move(stream));
  held.pump();
}

}  // namespace

std::string response_id_of(const HttpRequest& request) {
  auto id = request.path().substr(kPrefix.size());
  return id.substr(0, id.find('/'));
}

Error response_id_not_found(const std::string& id) {
  return make_error(ErrorClass::kNotFound, ErrorReason::kResponseNotFound,
                    "Response with id '" + id.substr(0, 256) + "' not found: it never was, was not stored, or is no longer kept.",
                    "response_id");
}

void responses(Service& service, Connection& connection, HttpRequest&& request, const Caller& caller) {
  if (auto error = service.refusal(); error && error->error_class == ErrorClass::kUnavailable)
    return service.answer_error(connection, *error);
  if (!request.has_token("upgrade", "websocket")) return list_responses(service, connection, std::move(request), caller);
  connection.upgrade(request, choose_subprotocol(request), std::make_unique<ResponsesSocket>(service, connection, caller));
}

void create_response(Service& service, Connection& connection, HttpRequest&& request, const Caller& caller) {
  if (auto error = service.refusal()) return service.answer_error(connection, *error);
  auto parsed = service.parse(connection, request, parse_http_request);
  if (!parsed) return;
  if (auto error = service.prepare(parsed->engine, caller, connection.id())) return service.answer_error(connection, *error);
  bool stream = parsed->stream;
  auto run = ResponseRun::start(service, std::move(*parsed));
  if (stream)
    connection.hold(std::make_unique<ResponseStream>(service, connection, std::move(run), 0));
  else
    connection.hold(std::make_unique<ResponseAnswer>(service, connection, std::move(run)));
}

void get_response(Service& service, Connection& connection, HttpRequest&& request, const Caller& caller) {
  std::optional<Error> error;
  QueryFields query(request, error);
  bool stream = query.boolean(fields::kStream);
  auto after = query.integer(fields::kStartingAfter, -1);
  if (!stream && after >= 0) query.fail("starting_after", "needs stream=true");
  if (error) return service.answer_error(connection, *error);
  auto id = response_id_of(request);
  auto run = service.shelf().find(caller.owner, id);
  if (!run && !stream) return find_stored_response(service, connection, id, caller);
  if (!run) return service.answer_error(connection, response_id_not_found(id));
  if (stream) return resume(service, connection, std::move(run), static_cast<std::uint64_t>(after + 1));
  connection.respond(200, "application/json", run->object());
}

void cancel_response(Service& service, Connection& connection, HttpRequest&& request, const Caller& caller) {
  auto run = find(service, connection, request, caller);
  if (!run) return;
  if (run->ended()) return connection.respond(200, "application/json", run->object());  // a second cancel is no fault
  run->cancel();
  connection.hold(std::make_unique<ResponseAnswer>(service, connection, std::move(run)));
}

void response_input_items(Service& service, Connection& connection, HttpRequest&& request, const Caller& caller) {
  auto run = find(service, connection, request, caller);
  if (!run) return;
  std::optional<Error> error;
  QueryFields query(request, error);
  auto limit = static_cast<std::size_t>(query.integer(fields::kListLimit));
  auto order = query.choice(fields::kListOrder);
  auto after = query.text(fields::kListAfter);
  if (error) return service.answer_error(connection, *error);
  auto items = nlohmann::json::parse(run->input_items());
  if (order == "desc") std::reverse(items.begin(), items.end());
  auto from = items.begin();
  if (!after.empty()) {
    from = std::find_if(items.begin(), items.end(), [&](const auto& item) { return item["id"] == after; });
    if (from == items.end()) query.fail("after", "must be the id of an item of this list");
    if (error) return service.answer_error(connection, *error);
    ++from;
  }
  auto page = nlohmann::json::array();
  for (; from != items.end() && page.size() < limit; ++from) page.push_back(std::move(*from));
  auto id_at = [&](std::size_t index) { return page.empty() ? nlohmann::json() : page[index]["id"]; };
  connection.respond(200, "application/json",
                     to_text({{"object", "list"},
                              {"first_id", id_at(0)},
                              {"last_id", id_at(page.size() - 1)},
                              {"has_more", from != items.end()},
                              {"data", page}}));
}

}  // namespace troupe::gateway::endpoints
