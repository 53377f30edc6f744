// See service.h.
#include "gateway/service.h"

#include "gateway/error_body.h"
#include "gateway/routes.h"
#include "gateway/server.h"
#include "messages/error_reasons.h"
#include "runtime/base/log.h"
#include "runtime/base/metric_names.h"

#include <openssl/rand.h>

#include <utility>

namespace troupe::gateway {
namespace {

constexpr std::uint64_t kTellEveryMs = 60'000;

std::optional<messages::ServedModel::Reader> find_model(messages::DirectoryChanged::Reader directory, std::string_view name) {
  for (auto model : directory.getModels())
    if (name.empty() || std::string_view(model.getName().begin(), model.getName().size()) == name) return model;
  return std::nullopt;
}

}  // namespace

Service::Service(const GatewayOptions& options, base::Metrics& metrics)
    : started_(unix_time()),
      limits_(options.limits),
      access_({options.keys, options.allowed_origins, options.allowed_hosts, options.hosts, options.metrics_open}),
      metrics_(metrics),
      config_json_(options.config_json),
      open_connections_(metrics.gauge("troupe:http_connections", "Open client connections")),
      refused_connections_(
          metrics.counter("troupe:http_connections_refused_total", "Connections over --max-connections or its limit by address")),
      slow_readers_(
          metrics.counter("troupe:http_slow_readers_total", "Connections cut because their output did not leave (--slow-reader-ms)")),
      access_log_(options.access_log),
      durable_responses_(options.durable_responses),
      live_(options.node, metrics.gauge("troupe:http_requests_in_flight", "Model requests handed to the engine and not ended")),
      shelf_(*this, metrics.gauge("troupe:http_stored_responses", "Responses that can be read, resumed or cancelled by id"),
             metrics.gauge("troupe:http_stored_response_bytes", "Memory of their objects, inputs and events")),
      system_prompts_(*this, options.system_prompts) {}

bool Service::admits(Connection& connection, const HttpRequest& request) {
  Caller caller;
  return find_route(*this, connection, request, caller) != nullptr;
}

void Service::request(Connection& connection, HttpRequest&& request) {
  // Checks leave nothing for an exception to say; should one come all the same, it ends this request and not the process.
  try {
    dispatch(*this, connection, std::move(request));
  } catch (const std::exception&) {
    answer_error(connection, internal_error());
  }
}

std::string Service::error_body(int status, std::string_view why) { return gateway::error_body(protocol_error(status, why)); }

void Service::answered(std::string_view route, int status) {
  auto& counter = answers_[{route, status}];
  if (counter == nullptr)
    counter = &metrics_.counter("troupe:http_requests_total", "HTTP answers by route and status",
                                {{"route", route.empty() ? "none" : std::string(route)}, {"status", std::to_string(status)}});
  counter->increment();
}

void Service::ended(const AccessRecord& record) {
  if (record.ending == AccessRecord::Ending::kSlowReader) slow_readers_.increment();
  if (access_log_) base::log_access("request", log_fields(record));
}

void Service::connection_refused(const std::string& address) {
  refused_connections_.increment();
  const auto time = server_->now();
  if (refusal_told_ != 0 && time - refusal_told_ < kTellEveryMs) return;
  refusal_told_ = time;
  base::log(base::LogLevel::kWarning, "connection_refused",
            "peer=" + base::log_value(address) + " open=" + std::to_string(server_->connections()) +
                " limit=" + std::to_string(limits_.connections) + " limit_by_address=" + std::to_string(limits_.connections_per_ip));
}

void Service::connections_changed(std::size_t open) { open_connections_.set(static_cast<double>(open)); }

void Service::drained(std::uint32_t cut) {
  shelf_.clear();  // the engine may be gone before the gateway is
  system_prompts_.clear();
  if (on_drained_) on_drained_(cut);
}

void Service::tick() {
  shelf_.tick();
  system_prompts_.tick();
  stuck();
}

void Service::set_directory(Message<messages::DirectoryChanged> directory) {
  directory_ = std::move(directory);
  if (ready()) system_prompts_.look_at_all();
}

std::uint64_t Service::now() const { return server_->now(); }

bool Service::draining() const { return server_ != nullptr && server_->draining(); }

bool Service::ready() const {
  if (!directory_) return false;
  for (auto model : directory_->getModels())
    if (model.getReplicasServing() > 0) return true;
  return false;
}

bool Service::stuck() {
  namespace metric = base::metric;
  const bool queued = metrics_.value(metric::kRequestsRunning) + metrics_.value(metric::kRequestsWaiting) > 0;
  const bool no_step = steps_.stuck(queued, metrics_.value(metric::kSteps), now(), limits_.stuck_ms);
  const bool no_answer = answers_in_time_.stuck(live_.unanswered() > 0, static_cast<double>(live_.answered()), now(), limits_.stuck_ms);
  if (std::exchange(stuck_, no_step || no_answer) != stuck_)
    base::log(base::LogLevel::kWarning, stuck_ ? "engine_stuck" : "engine_moves",
              "after_ms=" + std::to_string(limits_.stuck_ms) + " in_flight=" + std::to_string(live_.size()));
  return stuck_;
}

std::uint32_t Service::context_tokens(std::string_view name) const {
  if (!directory_) return 0;
  auto model = find_model(*directory_, name);
  return model ? model->getContextTokens() : 0;
}

std::optional<Error> Service::refusal(std::size_t requests) const {
  if (draining()) return draining_error();
  if (!ready())
    return make_error(ErrorClass::kUnavailable, ErrorReason::kLoading, "the model is still loading; try again soon", "", "", kRetryMs);
  if (live_.size() + requests > limits_.requests)
    return make_error(ErrorClass::kOverloaded, ErrorReason::kQueueFull,
                      "too many requests are in progress (limit " + std::to_string(limits_.requests) + "); try again later", "", "",
                      kRetryMs);
  return std::nullopt;
}

std::optional<Error> Service::prepare(ModelRequest& request, const Caller& caller, std::uint64_t connection) const {
  if (auto error = refusal()) return error;
  auto model = find_model(*directory_, request.model);
  if (!model)
    return make_error(ErrorClass::kNotFound, ErrorReason::kUnknownModel,
                      "the model '" + request.model + "' is not served here; GET /v1/models lists those that are", "model");
  request.model = model->getName().cStr();
  request.key_domains.clear();
  for (auto domain : model->getKeyDomains()) request.key_domains.push_back({domain.getHigh(), domain.getLow()});
  request.owner = caller.owner;
  request.connection = connection;
  request.credit = limits_.credit;
  if (request.retention == messages::Retention::MEMORY && durable_responses_) request.retention = messages::Retention::DISK;
  if (!request.sampling.seed_given) request.sampling.seed = random_number();
  return std::nullopt;
}

void Service::answer_error(Connection& connection, const Error& error, std::string_view headers) const {
  connection.respond(http_status(error.error_class), "application/json", gateway::error_body(error),
                     retry_after_header(error) + std::string(headers));
}

Error internal_error() {
  base::log(base::LogLevel::kError, "request_failed", "where=gateway");
  return make_error(ErrorClass::kInternal, ErrorReason::kUnclassified, "the request failed inside the server");
}

std::uint64_t random_number() {
  std::uint64_t number = 0;
  TROUPE_CHECK(RAND_bytes(reinterpret_cast<unsigned char*>(&number), sizeof number) == 1);
  return number;
}

std::string random_id(std::string_view prefix) {
  std::string id(prefix);
  for (int half = 0; half < 2; half++) {
    char text[20];
    std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(random_number()));
    id += text;
  }
  return id;
}

}  // namespace troupe::gateway
