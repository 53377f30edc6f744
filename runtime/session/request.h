// Request: a checked request as its session sees it; plain form of SubmitRequest (messages/request.capnp, which tells the fields' rules).
// Immutable after decoding; owned by the RequestSession.
#pragma once
#include "messages/ids.h"
#include "runtime/plan/forward_plan.h"

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace troupe::session {

enum class Endpoint : std::uint16_t { kChatCompletions, kCompletions, kResponses, kTokenize };
enum class Retention : std::uint16_t { kConnection, kMemory, kDisk };

/// One message, tool call or tool result, in the order of the conversation.
struct InputItem {
  std::string role;  // system, developer, user, assistant, tool
  std::string text;
  std::string name;       // empty = none
  std::string call_id;    // tool calls and results
  std::string arguments;  // tool calls: JSON text
  friend bool operator==(const InputItem&, const InputItem&) = default;
};

struct Request {
  RequestId request;
  Endpoint endpoint = Endpoint::kChatCompletions;
  std::string model;
  Hash128 owner;
  std::uint64_t connection = 0;
  std::string lane;
  std::string response_id;           // empty = not stored
  std::string previous_response_id;  // empty = a new tree
  Retention retention = Retention::kConnection;
  std::string cache_salt;
  std::int32_t priority = 0;
  std::uint32_t deadline_ms = 0;  // 0 = none
  std::uint32_t elapsed_ms = 0;
  std::variant<std::vector<InputItem>, std::string, std::vector<TokenId>> input;
  std::string instructions;
  std::string tools_json;  // an array, for the template; empty = none
  plan::SamplingParameters sampling;
  std::uint16_t choices = 1;
  std::uint32_t max_tokens = kNone32;  // a choice; kNone32 = to the end of the context; 0 = prefill only
  std::vector<std::string> stops;
  std::vector<TokenId> stop_tokens;
  bool ignore_eos = false;
  bool echo = false;  // completions: the prompt comes first; tokenize: texts are wanted too
  std::uint32_t score_from = kNone32;
  bool score_continuation = false;  // input text or ids follow those of previous_response_id; score_from is where they begin
  bool stream = false;
  std::uint32_t credit = 0;
  std::vector<Hash128> key_domains;
  bool parse_special = false;     // text: control tokens are recognised in it
  bool add_special = true;        // text: begins with BOS where the model wants one
  bool generation_prompt = true;  // items: the template opens the answer

  bool wants_logprobs() const { return sampling.top_logprobs != plan::kNoLogprobs; }
};

}  // namespace troupe::session
