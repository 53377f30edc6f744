// Fields of requests as data: the parser reads a field by its row, and /openapi.json and docs/http-api.md describe it by the same row.
// So what is written about a range is what is enforced. Constant tables; any thread.
#pragma once
#include "gateway/limits.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <variant>

namespace troupe::gateway {

struct FlagField {
  std::string_view name;
  bool fallback;
  std::string_view help;
};
struct NumberField {
  std::string_view name;
  double min, max, fallback;
  std::string_view help;
};
struct IntegerField {
  std::string_view name;
  std::int64_t min, max;
  std::optional<std::int64_t> fallback;  // none: what the help says
  std::string_view help;
};
struct TextField {
  std::string_view name;
  std::size_t max_bytes;
  std::string_view help;
};
/// One of several words.
struct ChoiceField {
  std::string_view name;
  std::span<const std::string_view> values;
  std::string_view fallback;
  std::string_view help;
};
/// A field with a parser of its own.
struct ShapedField {
  std::string_view name;
  nlohmann::json (*schema)(const Limits&);
  std::string_view help;
};
using Field = std::variant<FlagField, NumberField, IntegerField, TextField, ChoiceField, ShapedField>;

namespace fields {

inline constexpr std::size_t kNameBytes = 256;
inline constexpr std::int64_t kMostTokens = 0xfffffffe;
inline constexpr std::int64_t kMostTopLogprobs = 20;
inline constexpr std::size_t kMostTools = 128;
inline constexpr std::int64_t kInt32Min = std::numeric_limits<std::int32_t>::min(), kInt32Max = std::numeric_limits<std::int32_t>::max();
inline constexpr std::int64_t kInt64Min = std::numeric_limits<std::int64_t>::min(), kInt64Max = std::numeric_limits<std::int64_t>::max();

// Sampling.
inline constexpr NumberField kTemperature{"temperature", 0, 2, 1, "0: always the most likely token, bit for bit the same each time"};
inline constexpr NumberField kTopP{"top_p", 0, 1, 1, "draw from the most likely tokens that together have this probability"};
inline constexpr IntegerField kTopK{"top_k", -1, kInt32Max, 0, "draw from so many most likely tokens; 0 and -1: no limit"};
inline constexpr NumberField kMinP{"min_p", 0, 1, 0, "draw from tokens at least so likely, as a part of the most likely one"};
inline constexpr IntegerField kSeed{"seed", kInt64Min, kInt64Max, std::nullopt,
                                    "equal requests with equal seeds give equal answers; absent: a new one each time"};
inline constexpr NumberField kPresencePenalty{"presence_penalty", -2, 2, 0,
                                              "taken from the logit of each token that the answer has already"};
inline constexpr NumberField kFrequencyPenalty{"frequency_penalty", -2, 2, 0, "the same, once for each time it occurs"};
inline constexpr NumberField kRepetitionPenalty{"repetition_penalty", 0.01, 10, 1,
                                                "divides the logits of tokens of the prompt and the answer; 1: off"};

// What every generating endpoint has.
inline constexpr TextField kModel{"model", kNameBytes, "a name from GET /v1/models; absent: the first"};
inline constexpr FlagField kIgnoreEos{"ignore_eos", false, "go on behind the model's end-of-text token"};
inline constexpr IntegerField kPriority{"priority", kInt32Min, kInt32Max, 0, "higher goes first, with `--policy priority`"};
inline constexpr IntegerField kDeadlineMs{"deadline_ms", 1, 86'400'000, std::nullopt,
                                          "end with an error (504) this many ms after the request came; absent: never"};
inline constexpr TextField kCacheSalt{"cache_salt", kNameBytes, "only requests with the same salt share cached prompts"};
inline constexpr TextField kPromptCacheKey{"prompt_cache_key", kNameBytes, "OpenAI's name; the same as cache_salt, which wins"};
inline constexpr FlagField kStream{"stream", false, "answer with server-sent events"};

// Chat and completions.
inline constexpr FlagField kLogprobs{"logprobs", false, "log-probabilities of the answer's tokens"};
inline constexpr IntegerField kTopLogprobs{"top_logprobs", 0, kMostTopLogprobs, 0, "alternatives beside each token; needs logprobs"};
inline constexpr IntegerField kMaxTokens{"max_tokens", 1, kMostTokens, std::nullopt,
                                         "tokens of an answer, at most; absent: to the end of the context"};
inline constexpr IntegerField kMaxCompletionTokens{"max_completion_tokens", 1, kMostTokens, std::nullopt,
                                                   "OpenAI's newer name; the smaller of the two counts"};
inline constexpr IntegerField kPromptLogprobs{"prompt_logprobs", 0, kMostTopLogprobs, std::nullopt,
                                              "vLLM's: log-probabilities of the prompt with so many alternatives a token; not in a stream"};
inline constexpr FlagField kEcho{"echo", false, "the prompt comes before the answer, with its log-probabilities if logprobs is given"};
inline constexpr IntegerField kCompletionTokens{"max_tokens", 0, kMostTokens, 16,
                                                "tokens of an answer, at most; 0 with echo: the prompt alone"};
inline constexpr IntegerField kCompletionLogprobs{"logprobs", 0, 5, std::nullopt,
                                                  "log-probabilities of the tokens, with so many alternatives each"};
inline constexpr FlagField kParseSpecial{"parse_special", false,
                                         "read control tokens such as `<|im_end|>` in the text; otherwise they are plain text"};

// Tokenizing.
inline constexpr FlagField kAddGenerationPrompt{"add_generation_prompt", true, "end with the opening of the assistant's answer"};
inline constexpr FlagField kWithPieces{"with_pieces", false, "llama.cpp's: tokens as objects {id, piece}"};
inline constexpr FlagField kReturnTokenStrs{"return_token_strs", false, "vLLM's: the tokens' texts as token_strs"};
inline constexpr FlagField kAddSpecial{"add_special", false, "llama.cpp's: begin with the model's BOS token where the model wants one"};
inline constexpr FlagField kAddSpecialTokens{"add_special_tokens", true, "vLLM's name of add_special, with `prompt`; true unless given"};

// Queries of the URLs of stored responses.
inline constexpr IntegerField kStartingAfter{"starting_after", 0, kInt64Max - 1, std::nullopt,
                                             "with stream: begin behind the event of this sequence_number; absent: with the first"};
inline constexpr IntegerField kListLimit{"limit", 1, 100, 20, "items, at most"};
inline constexpr TextField kTreeAfter{"after", kNameBytes, "begin behind this id; absent: with the first"};
inline constexpr FlagField kSubtree{"subtree", false, "with all that descend from it; else those keep what they share with it"};
inline constexpr IntegerField kPinTtl{"ttl_seconds", 0, 31'536'000, std::nullopt, "so long from now, whatever else needs room; 0 unpins"};
inline constexpr TextField kEventsAfter{"after", 64, "begin behind the event of this id; absent or no longer kept: with all there is"};
inline constexpr FlagField kEventTokens{"tokens", false, "with the token ids of stored blocks, where they are in device memory"};
inline constexpr std::string_view kOrders[] = {"asc", "desc"};
inline constexpr ChoiceField kListOrder{"order", kOrders, "desc", "as they were sent, or the last first"};
inline constexpr TextField kListAfter{"after", kNameBytes, "begin behind the item of this id; absent: with the first"};
inline constexpr ShapedField kIncludeStored{"include", [](const Limits&) { return nlohmann::json::object(); },
                                            "taken and ignored: a response has what was asked for when it was made"};

// System prompts that are kept in the cache.
inline constexpr ShapedField kSystemPromptName{"name",
                                               [](const Limits&) {
                                                 return nlohmann::json{{"type", "string"}, {"pattern", "^[A-Za-z0-9_.-]{1,64}$"}};
                                               },
                                               "what it is called: 1 to 64 letters, digits or characters of `_.-`"};
inline constexpr ShapedField kSystemPromptText{"text",
                                               [](const Limits&) {
                                                 return nlohmann::json{{"type", "string"}, {"minLength", 1}};
                                               },
                                               "the system message, word for word as clients send it; at most 1 MiB"};

}  // namespace fields
}  // namespace troupe::gateway
