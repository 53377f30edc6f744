// The loads of the suite cache against one server: second turns of chats, a tree search, a trace. Works with every server that has
// streaming /v1/chat/completions and /v1/completions (the trace's prompts are token ids). One thread.
#pragma once
#include "cluster/bench/block_trace.h"
#include "cluster/bench/http_scenarios.h"
#include "cluster/bench/tree_search.h"

#include <cstdint>
#include <span>
#include <vector>

namespace troupe::cluster::bench {

/// Chats of one length whose second turn is asked: that is where a cache pays.
class TwoTurnChats {
 public:
  using Messages = std::vector<ChatMessage>;
  TwoTurnChats(HttpScenarios& http, std::uint32_t tokens) : http_(http), tokens_(tokens) {}
  /// Everything up to the second question. The server is asked for the first answer; an error tells why there is none.
  Result<Messages> begun();
  /// The same with a first answer made up here: the server has never seen it.
  Messages unknown();
  CallResult second_turn(const Messages& chat);
  /// A prompt of the same length, asked for a word.
  void push_out();

 private:
  Messages first_turn();
  HttpScenarios& http_;
  std::uint32_t tokens_;
};

HttpFigure search_tree(HttpScenarios& http, const TreeShape& shape, std::uint32_t root_tokens, std::uint64_t seed,
                       const std::atomic<bool>& stop);
HttpFigure replay_trace(HttpScenarios& http, std::span<const TraceRequest> trace, std::uint32_t clients, std::size_t most_tokens,
                        std::uint32_t answer_tokens, std::uint64_t seed);

}  // namespace troupe::cluster::bench
