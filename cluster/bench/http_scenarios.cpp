// See http_scenarios.h.
#include "cluster/bench/http_scenarios.h"
#include "cluster/bench/load_summary.h"
#include "messages/error_reasons.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <limits>

namespace troupe::cluster::bench {
namespace {

using Messages = std::vector<ChatMessage>;

constexpr std::array<std::string_view, 5> kScenarios{"ttft", "unique", "shared", "multiturn", "newcomer"};
constexpr std::uint32_t kShortAnswer = 8;     // where only the first token counts
constexpr std::uint32_t kQuestionWords = 24;  // behind a shared system prompt
constexpr std::uint32_t kStreamPrompt = 64;   // tokens
constexpr std::uint32_t kNewcomerAnswer = 32;
constexpr std::size_t kWarmPieces = 16;  // of each stream, before the newcomer

Messages user(std::string text) { return {{"user", std::move(text)}}; }

}  // namespace

std::span<const std::string_view> scenario_names() { return kScenarios; }
bool scenario_takes_clients(std::string_view scenario) { return scenario != "ttft" && scenario != "newcomer"; }

HttpScenarios::HttpScenarios(ServerAddress server, ChatSettings settings, HttpSizes sizes, std::uint64_t seed,
                             const std::atomic<bool>& stop)
    : server_(std::move(server)), settings_(std::move(settings)), sizes_(sizes), prompts_(seed), stop_(stop) {}

LoadClient HttpScenarios::client(bool ignore_eos) const {
  ChatSettings settings = settings_;
  settings.ignore_eos = ignore_eos;
  return {server_, std::move(settings), stop_};
}

Status HttpScenarios::prepare() {
  const auto fail = [](std::string text) { return make_error(ErrorClass::kUnavailable, ErrorReason::kUnclassified, std::move(text)); };
  if (settings_.model.empty()) {
    auto answer = HttpStream::open(server_, "GET", "/v1/models", settings_.api_key);
    if (!answer) return answer.error();
    auto body = answer->rest();
    if (!body) return body.error();
    const auto list = nlohmann::json::parse(*body, nullptr, false);
    const auto id = list.is_object() ? list.value(nlohmann::json::json_pointer("/data/0/id"), nlohmann::json()) : nlohmann::json();
    if (answer->status() != 200 || !id.is_string())
      return fail("GET /v1/models: the server answered with status " + std::to_string(answer->status()) + " and names no model");
    settings_.model = id.get<std::string>();
  }
  constexpr std::uint32_t kFew = 40, kMany = 240;
  double tokens[2] = {};
  for (const std::uint32_t words : {kFew, kMany}) {
    const CallResult result = client(false).call(user(prompts_.words(words)), 2);
    if (!result.good()) return fail("the first request failed: " + result.error);
    tokens[words == kMany] = static_cast<double>(result.prompt_tokens);
  }
  if (tokens[0] > 0 && tokens[1] > 0) prompts_.calibrate(kFew, tokens[0], kMany, tokens[1]);
  return ok_status();
}

void HttpScenarios::wake() { client(false).call(user(prompts_.words(8)), 2); }

HttpFigure HttpScenarios::run(std::string_view scenario, std::uint32_t clients) {
  std::vector<Messages> requests;
  HttpFigure figure;
  if (scenario == "ttft" || scenario == "unique") {
    for (std::uint32_t i = 0; i < sizes_.requests; ++i) requests.push_back(user(prompts_.text(sizes_.prompt_tokens)));
    const bool first_only = scenario == "ttft";
    figure =
        one_by_one(first_only ? 1 : clients, requests, first_only ? std::min(kShortAnswer, sizes_.answer_tokens) : sizes_.answer_tokens);
  } else if (scenario == "shared") {
    const std::string system = prompts_.text(sizes_.system_tokens);
    for (std::uint32_t i = 0; i < sizes_.requests; ++i) requests.push_back({{"system", system}, {"user", prompts_.words(kQuestionWords)}});
    figure = one_by_one(clients, requests, sizes_.answer_tokens);
  } else if (scenario == "multiturn") {
    figure = multiturn(clients);
  } else {
    figure = newcomer();
  }
  figure.scenario = scenario;
  return figure;
}

HttpFigure HttpScenarios::one_by_one(std::uint32_t clients, const std::vector<Messages>& requests, std::uint32_t answer_tokens) {
  LoadClient load = client();
  const double start = now_seconds();
  const auto results = load.run_all(requests.size(), clients,
                                    [&](std::size_t i, LoadClient::Done done) { load.start(requests[i], answer_tokens, std::move(done)); });
  HttpFigure figure = load_summary(results, now_seconds() - start);
  figure.clients = clients;
  return figure;
}

HttpFigure HttpScenarios::multiturn(std::uint32_t clients) {
  const std::uint32_t chats = std::max(clients, sizes_.requests / sizes_.turns);
  std::vector<std::vector<std::string>> questions(chats);
  for (auto& chat : questions)
    for (std::uint32_t turn = 0; turn < sizes_.turns; ++turn) chat.push_back(prompts_.words(sizes_.turn_words));

  LoadClient load = client();
  std::vector<CallResult> results;
  std::vector<std::vector<double>> by_turn(sizes_.turns);
  std::vector<Messages> histories(chats);
  std::uint32_t next = 0;
  std::function<void(std::uint32_t, std::uint32_t)> ask = [&](std::uint32_t chat, std::uint32_t turn) {
    if (stop_.load(std::memory_order_relaxed)) return;
    Messages& history = histories[chat];
    history.push_back({"user", questions[chat][turn]});
    load.start(history, sizes_.answer_tokens, [&, chat, turn](CallResult&& result) {
      const bool good = result.good();
      if (good) {
        by_turn[turn].push_back(result.first_token_seconds());
        histories[chat].push_back({"assistant", result.text()});
      }
      results.push_back(std::move(result));
      if (good && turn + 1 < sizes_.turns)
        ask(chat, turn + 1);
      else if (next < chats)
        ask(next++, 0);
    });
  };
  const double start = now_seconds();
  while (next < std::min(clients, chats)) ask(next++, 0);
  load.run();
  HttpFigure figure = load_summary(results, now_seconds() - start);
  figure.clients = clients;
  for (auto& turn : by_turn) figure.first_token_by_turn.push_back(median(std::move(turn)) * 1e3);
  return figure;
}

HttpFigure HttpScenarios::newcomer() {
  const std::string prompt = prompts_.text(sizes_.newcomer_tokens);
  LoadClient load = client();
  std::vector<CallResult> streams;
  CallResult late;
  late.error = "the streams ended before the newcomer came";
  std::vector<bool> warm(sizes_.streams, false);
  double ready = std::numeric_limits<double>::infinity();
  const double start = now_seconds();
  for (std::uint32_t i = 0; i < sizes_.streams; ++i) {
    load.start(
        user(prompts_.text(kStreamPrompt)), sizes_.stream_tokens, [&](CallResult&& result) { streams.push_back(std::move(result)); },
        [&, i](const CallResult& result) {
          if (result.stamps.size() < kWarmPieces || warm[i]) return;
          warm[i] = true;
          if (std::find(warm.begin(), warm.end(), false) != warm.end()) return;
          ready = now_seconds();
          load.after(sizes_.settle_seconds,
                     [&] { load.start(user(prompt), kNewcomerAnswer, [&](CallResult&& answer) { late = std::move(answer); }); });
        });
  }
  load.run();
  const double wall = now_seconds() - start;

  std::vector<double> before, during, after;
  const double first = late.stamps.empty() ? late.end : late.stamps.front();
  for (const CallResult& stream : streams) {
    if (!stream.good()) continue;
    append_gaps(before, stream, ready, late.start);
    append_gaps(during, stream, late.start, first);
    append_gaps(after, stream, first);
  }
  std::vector<CallResult> all = streams;
  all.push_back(late);
  HttpFigure figure = load_summary(all, wall);
  figure.clients = sizes_.streams;
  figure.newcomer_prompt_tokens = static_cast<std::uint32_t>(late.prompt_tokens);
  if (late.good()) figure.newcomer_first_token_ms = late.first_token_seconds() * 1e3;
  figure.before = latency_of(std::move(before));
  figure.during = latency_of(std::move(during));
  figure.after = latency_of(std::move(after));
  return figure;
}

}  // namespace troupe::cluster::bench
