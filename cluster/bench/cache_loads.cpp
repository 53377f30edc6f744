// See cache_loads.h.
#include "cluster/bench/cache_loads.h"

#include "cluster/bench/load_summary.h"
#include "messages/error_reasons.h"

namespace troupe::cluster::bench {
namespace {

constexpr std::uint32_t kShortAnswer = 8;  // only the first token counts
constexpr std::uint32_t kQuestionWords = 24;

}  // namespace

TwoTurnChats::Messages TwoTurnChats::first_turn() { return {{"user", http_.prompts().text(tokens_)}}; }

Result<TwoTurnChats::Messages> TwoTurnChats::begun() {
  Messages chat = first_turn();
  const CallResult first = http_.client().call(chat, kShortAnswer);
  if (!first.good())
    return make_error(ErrorClass::kUnavailable, ErrorReason::kUnclassified, "the first turn of a chat failed: " + first.error);
  chat.push_back({"assistant", first.text()});
  chat.push_back({"user", http_.prompts().words(kQuestionWords)});
  return chat;
}

TwoTurnChats::Messages TwoTurnChats::unknown() {
  Messages chat = first_turn();
  chat.push_back({"assistant", http_.prompts().words(kShortAnswer)});
  chat.push_back({"user", http_.prompts().words(kQuestionWords)});
  return chat;
}

CallResult TwoTurnChats::second_turn(const Messages& chat) { return http_.client().call(chat, kShortAnswer); }

void TwoTurnChats::push_out() { http_.client().call(first_turn(), 2); }

HttpFigure search_tree(HttpScenarios& http, const TreeShape& shape, std::uint32_t root_tokens, std::uint64_t seed,
                       const std::atomic<bool>& stop) {
  LoadClient client = http.client();
  TreeSearch search(client, shape, http.prompts().text(root_tokens), seed, stop);
  const double start = now_seconds();
  const auto results = search.run();
  HttpFigure figure = load_summary(results, now_seconds() - start);
  figure.scenario = "mcts";
  figure.clients = shape.branches;
  return figure;
}

HttpFigure replay_trace(HttpScenarios& http, std::span<const TraceRequest> trace, std::uint32_t clients, std::size_t most_tokens,
                        std::uint32_t answer_tokens, std::uint64_t seed) {
  LoadClient client = http.client();
  const double start = now_seconds();
  const auto results = client.run_all(trace.size(), clients, [&](std::size_t i, LoadClient::Done done) {
    CompletionCall call;
    call.prompt_ids = trace_prompt(trace[i], seed, most_tokens);
    call.max_tokens = answer_tokens;
    client.start(call, std::move(done));
  });
  HttpFigure figure = load_summary(results, now_seconds() - start);
  figure.scenario = "trace";
  figure.clients = clients;
  return figure;
}

}  // namespace troupe::cluster::bench
