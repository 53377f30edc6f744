// What a client of a chat server sees, in five scenarios of load: time to the first token, gaps between tokens, throughput.
//   ttft       one request at a time, each with its own prompt
//   unique     many clients, every prompt different from the first token on
//   shared     many clients, one common system prompt
//   multiturn  many clients, each a chat whose history grows
//   newcomer   long streams run when one long prompt arrives: what it does to them, and how long it waits itself
// Works with every server that has a streaming /v1/chat/completions. One thread.
#pragma once
#include "cluster/bench/load_client.h"
#include "cluster/bench/prompt_maker.h"
#include "cluster/bench/report.h"

#include <atomic>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace troupe::cluster::bench {

struct HttpSizes {
  std::uint32_t requests = 32;  // of a scenario, all clients together
  std::uint32_t prompt_tokens = 512, system_tokens = 512, answer_tokens = 64;
  std::uint32_t turns = 5, turn_words = 40;
  std::uint32_t streams = 4, stream_tokens = 400, newcomer_tokens = 2000;
  double settle_seconds = 1;  // the streams alone, before the newcomer
};

/// "ttft", "unique", "shared", "multiturn", "newcomer".
std::span<const std::string_view> scenario_names();
/// False: always runs with one number of clients.
bool scenario_takes_clients(std::string_view scenario);

class HttpScenarios {
 public:
  HttpScenarios(ServerAddress server, ChatSettings settings, HttpSizes sizes, std::uint64_t seed, const std::atomic<bool>& stop);
  /// Asks for the model's name unless the settings have one, and counts two prompts. Before all else.
  Status prepare();
  /// One short request: what a server does once after a pause is done before time counts.
  void wake();
  HttpFigure run(std::string_view scenario, std::uint32_t clients);
  PromptMaker& prompts() { return prompts_; }
  const std::string& model() const { return settings_.model; }
  LoadClient client(bool ignore_eos) const;
  LoadClient client() const { return client(settings_.ignore_eos); }
  const ServerAddress& server() const { return server_; }

 private:
  HttpFigure one_by_one(std::uint32_t clients, const std::vector<std::vector<ChatMessage>>& requests, std::uint32_t answer_tokens);
  HttpFigure multiturn(std::uint32_t clients);
  HttpFigure newcomer();

  ServerAddress server_;
  ChatSettings settings_;
  HttpSizes sizes_;
  PromptMaker prompts_;
  const std::atomic<bool>& stop_;
};

}  // namespace troupe::cluster::bench
