// POST /v1/responses/{id}/score: log-probabilities of continuations behind a stored response. Nothing is generated.
#include "gateway/answer_json.h"
#include "gateway/endpoints/endpoints.h"
#include "gateway/endpoints/response_id.h"
#include "gateway/error_body.h"
#include "gateway/score_request.h"
#include "gateway/service.h"
#include "messages/error_reasons.h"

namespace troupe::gateway::endpoints {
namespace {

/// Gathers the scores of all continuations and answers once; the first failure ends them all.
class ScoreAnswer final : public Exchange {
 public:
  ScoreAnswer(Service& service, Connection& connection, std::string id, ScoreRequest request)
      : service_(service), connection_(connection), id_(std::move(id)), model_(request.continuations.front().model) {
    scores_.resize(request.continuations.size());
    for (const auto& one : request.continuations) parts_.push_back(std::make_unique<Part>(*this, parts_.size(), one));
  }
  void hung_up() override { cancel(); }
  void cut_short() override { fail(cut_by_drain()); }

 private:
  struct Part final : EngineSink {
    Part(ScoreAnswer& answer, std::size_t number, const ModelRequest& request)
        : owner(answer), index(number), call(answer.service_.live(), request, *this) {}
    void admitted(messages::RequestAdmitted::Reader) override {}
    void delta(messages::TokenDelta::Reader) override {}
    void finished(messages::RequestFinished::Reader message) override { owner.part_finished(*this, message); }
    ScoreAnswer& owner;
    std::size_t index;
    EngineCall call;
  };

  void part_finished(Part& part, messages::RequestFinished::Reader message) {
    part.call.ended();
    if (over_) return;
    if (auto error = failure_of(message)) return fail(*error);
    usage_.add(message);
    scores_[part.index] = score_text(part.index, message);
    gathered_ += scores_[part.index].size();
    if (gathered_ > service_.limits().answer) return fail(answer_too_large(service_.limits()));
    if (++finished_ < parts_.size()) return;
    over_ = true;
    std::string out = "{\"id\":";
    append_json_string(out, id_);
    out += ",\"object\":\"response.scores\",\"model\":";
    append_json_string(out, model_);
    out += ",\"scores\":[";
    for (std::size_t i = 0; i < scores_.size(); i++) out += (i > 0 ? "," : "") + scores_[i];
    connection_.respond(200, "application/json", out + "],\"usage\":" + to_text(usage_.responses()) + "}");
  }

  /// {"index", "logprob": the sum, "tokens", "token_logprobs", "token_strs"}
  static std::string score_text(std::size_t index, messages::RequestFinished::Reader message) {
    auto ids = message.getPromptIds();
    auto texts = message.getTokenTexts();
    auto chosen = message.getPromptLogprobs().getChosen();
    const unsigned first = ids.size() - std::min(ids.size(), chosen.size());
    double sum = 0;
    std::string tokens, values, names;
    for (unsigned i = 0; first + i < ids.size(); i++) {
      const auto* comma = i > 0 ? "," : "";
      const double value = logprob_value(chosen[i]);
      sum += value;
      tokens += comma + std::to_string(ids[first + i]);
      values += comma + to_text(value);
      names += comma;
      append_json_string(names, first + i < texts.size() ? token_name(bytes_of(texts[first + i])) : std::string());
    }
    return "{\"index\":" + std::to_string(index) + ",\"logprob\":" + to_text(sum) + ",\"tokens\":[" + tokens + "],\"token_logprobs\":[" +
           values + "],\"token_strs\":[" + names + "]}";
  }

  void cancel() {
    over_ = true;
    for (auto& part : parts_) part->call.cancel_silently();
  }
  void fail(Error error) {
    cancel();
    if (error.reason == ErrorReason::kPreviousResponse) error = response_id_not_found(id_);
    service_.answer_error(connection_, error);
  }

  Service& service_;
  Connection& connection_;
  const std::string id_, model_;
  std::vector<std::unique_ptr<Part>> parts_;
  std::vector<std::string> scores_;  // JSON text
  UsageTotals usage_;
  std::size_t finished_ = 0, gathered_ = 0;
  bool over_ = false;
};

}  // namespace

void score_response(Service& service, Connection& connection, HttpRequest&& request, const Caller& caller) {
  if (auto error = service.refusal()) return service.answer_error(connection, *error);
  auto parsed = service.parse(connection, request, parse_score_request);
  if (!parsed) return;
  if (auto error = service.refusal(parsed->continuations.size())) return service.answer_error(connection, *error);
  auto id = response_id_of(request);
  for (auto& one : parsed->continuations) {
    if (auto error = service.prepare(one, caller, connection.id())) return service.answer_error(connection, *error);
    one.previous_response_id = id;
  }
  connection.hold(std::make_unique<ScoreAnswer>(service, connection, std::move(id), std::move(*parsed)));
}

}  // namespace troupe::gateway::endpoints
