// Service: what the endpoints share, and the Application behind the server: access, admission of new work, the model directory,
// live requests, HTTP metrics. Owned by the Gateway; loop thread, except the constructor.
#pragma once
#include "gateway/access.h"
#include "gateway/cache_events.h"
#include "gateway/connection.h"
#include "gateway/gateway.h"
#include "gateway/json_fields.h"
#include "gateway/live_requests.h"
#include "gateway/progress_watch.h"
#include "gateway/response_shelf.h"
#include "gateway/store_calls.h"
#include "gateway/system_prompt_shelf.h"
#include "runtime/base/metrics.h"

#include <ctime>
#include <functional>
#include <map>
#include <optional>
#include <string>

namespace troupe::gateway {

class Service final : public Application {
 public:
  Service(const GatewayOptions& options, base::Metrics& metrics);
  void attach(Server& server) { server_ = &server; }

  // Application.
  bool admits(Connection& connection, const HttpRequest& request) override;
  void request(Connection& connection, HttpRequest&& request) override;
  std::string error_body(int status, std::string_view why) override;
  void answered(std::string_view route, int status) override;
  void ended(const AccessRecord& record) override;
  void connections_changed(std::size_t open) override;
  void connection_refused(const std::string& address) override;
  void tick() override;
  bool wants_ticks() const override { return shelf_.has_running(); }
  void drained(std::uint32_t cut) override;

  // For the endpoints.
  const Limits& limits() const { return limits_; }
  std::int64_t started() const { return started_; }  // seconds since 1970
  const AccessRules& access() const { return access_; }
  void set_keys(KeySet keys) { access_.set_keys(std::move(keys)); }
  StoreCalls& store_calls() { return store_calls_; }
  CacheEventReaders& cache_events() { return cache_events_; }
  LiveRequests& live() { return live_; }
  ResponseShelf& shelf() { return shelf_; }
  SystemPromptShelf& system_prompts() { return system_prompts_; }
  /// Loop milliseconds.
  std::uint64_t now() const;
  const base::Metrics& metrics() const { return metrics_; }
  const std::string& config_json() const { return config_json_; }
  bool draining() const;
  /// Whether a replica serves at least one model.
  bool ready() const;
  /// Whether no step of the engine has ended for Limits::stuck_ms though it has work, or nothing in it takes up new requests.
  bool stuck();
  /// Models as last told by the router; null before that.
  const Message<messages::DirectoryChanged>& directory() const { return directory_; }
  /// Context length of a served model, in tokens; 0 if it is not served.
  std::uint32_t context_tokens(std::string_view model) const;
  /// Why no new work is taken now: draining or loading (503), too many requests (429).
  std::optional<Error> refusal(std::size_t requests = 1) const;
  /// refusal(), and the model must be served (404); an empty name becomes the first served model. Fills in what the gateway adds:
  /// owner, connection, seed, credit, key domains.
  std::optional<Error> prepare(ModelRequest& request, const Caller& caller, std::uint64_t connection) const;
  /// The JSON body as `parser` has it. None: the error has been answered.
  template <class Request>
  std::optional<Request> parse(Connection& connection, const HttpRequest& request,
                               Result<Request> (*parser)(const JsonBody&, const Limits&)) const {
    auto body = parse_json_object(request.body, limits_.json_depth);
    if (!body.ok()) return answer_error(connection, body.error()), std::nullopt;
    auto parsed = parser(*body, limits_);
    if (!parsed.ok()) return answer_error(connection, parsed.error()), std::nullopt;
    return std::move(*parsed);
  }
  /// Answers with the error's status, body and Retry-After.
  void answer_error(Connection& connection, const Error& error, std::string_view headers = {}) const;

  void set_directory(Message<messages::DirectoryChanged> directory);
  void on_drained(std::function<void(std::uint32_t cut)> done) { on_drained_ = std::move(done); }

 private:
  const std::int64_t started_;
  const Limits limits_;
  AccessRules access_;
  base::Metrics& metrics_;
  const std::string config_json_;
  base::Gauge& open_connections_;
  base::Counter& refused_connections_;
  base::Counter& slow_readers_;
  const bool access_log_;
  const bool durable_responses_;
  std::uint64_t refusal_told_ = 0;  // loop time of the last log line of refused connections; 0: none yet
  std::map<std::pair<std::string_view, int>, base::Counter*> answers_;  // by route and status
  LiveRequests live_;
  StoreCalls store_calls_{live_};
  CacheEventReaders cache_events_{live_};
  ResponseShelf shelf_;  // behind live_, which its calls use
  SystemPromptShelf system_prompts_;
  ProgressWatch steps_, answers_in_time_;
  bool stuck_ = false;  // as last told
  Server* server_ = nullptr;
  Message<messages::DirectoryChanged> directory_;
  std::function<void(std::uint32_t cut)> on_drained_;
};

/// What a client is told of an exception; also logs that there was one.
Error internal_error();
/// "resp_" and the like, with 128 random bits in hexadecimal: ids cannot be guessed.
std::string random_id(std::string_view prefix);
std::uint64_t random_number();
/// Seconds since 1970, for `created`.
inline std::int64_t unix_time() { return static_cast<std::int64_t>(std::time(nullptr)); }

}  // namespace troupe::gateway
