// The request bodies. See api_schemas.h.
#include "gateway/api_schemas.h"

namespace troupe::gateway {
namespace {

using nlohmann::json;
using namespace fields;

template <class... Visitors>
struct Overloaded : Visitors... {
  using Visitors::operator()...;
};
template <class... Visitors>
Overloaded(Visitors...) -> Overloaded<Visitors...>;

json token_ids() { return {{"type", "array"}, {"items", {{"type", "integer"}, {"minimum", 0}, {"maximum", kMostTokens}}}}; }

json text_parts() {
  return {{"type", "array"},
          {"items",
           {{"type", "object"},
            {"required", {"type", "text"}},
            {"properties", {{"type", {{"enum", {"text", "input_text", "output_text"}}}}, {"text", {{"type", "string"}}}}}}}};
}

json messages_schema(const Limits& limits) {
  json content = {{"anyOf", {{{"type", "string"}}, text_parts()}}};
  return {{"type", "array"},
          {"minItems", 1},
          {"maxItems", limits.items},
          {"items",
           {{"type", "object"},
            {"required", {"role", "content"}},
            {"properties", {{"role", {{"enum", {"system", "developer", "user", "assistant"}}}}, {"content", content}}}}}};
}

json stop_schema(const Limits& limits) {
  json one = {{"type", "string"}, {"minLength", 1}, {"maxLength", limits.stop_bytes}};
  return {{"anyOf", {one, {{"type", "array"}, {"maxItems", limits.stops}, {"items", one}}}}};
}

json stop_ids_schema(const Limits& limits) {
  auto schema = token_ids();
  schema["maxItems"] = limits.stops;
  return schema;
}

json bias_schema(const Limits& limits) {
  return {{"type", "object"},
          {"maxProperties", limits.bias_entries},
          {"propertyNames", {{"pattern", "^(0|[1-9][0-9]{0,8})$"}}},
          {"additionalProperties", {{"type", "number"}, {"minimum", -100}, {"maximum", 100}}}};
}

json choices_schema(const Limits& limits) { return {{"type", "integer"}, {"minimum", 1}, {"maximum", limits.choices}, {"default", 1}}; }

json stream_options_schema(const Limits&) {
  return {{"type", "object"}, {"properties", {{"include_usage", {{"type", "boolean"}, {"default", false}}}}}};
}

json format_schema(const Limits&) { return {{"type", "object"}, {"required", {"type"}}, {"properties", {{"type", {{"enum", {"text"}}}}}}}; }

json tools_schema(const Limits&) {
  return {{"type", "array"},
          {"maxItems", kMostTools},
          {"items",
           {{"type", "object"},
            {"required", {"type", "function"}},
            {"properties",
             {{"type", {{"enum", {"function"}}}},
              {"function", {{"type", "object"}, {"required", {"name"}}, {"properties", {{"name", {{"type", "string"}}}}}}}}}}}};
}

json flat_tools_schema(const Limits&) {
  return {{"type", "array"},
          {"maxItems", kMostTools},
          {"items",
           {{"type", "object"},
            {"required", {"type", "name"}},
            {"properties", {{"type", {{"enum", {"function"}}}}, {"name", {{"type", "string"}}}}}}}};
}

json tool_choice_schema(const Limits&) { return {{"enum", {"none", "auto"}}}; }

json prompt_schema(const Limits& limits) {
  json text = {{"type", "string"}};
  json ids = token_ids();
  ids["minItems"] = 1;
  json texts = {{"type", "array"}, {"minItems", 1}, {"maxItems", limits.choices}, {"items", text}};
  json lists = {{"type", "array"}, {"minItems", 1}, {"maxItems", limits.choices}, {"items", ids}};
  return {{"anyOf", {text, texts, ids, lists}}};
}

json tokens_schema(const Limits&) { return token_ids(); }
json string_schema(const Limits&) { return {{"type", "string"}}; }
json any_schema(const Limits&) { return json::object(); }

json include_schema(const Limits&) { return {{"type", "array"}, {"maxItems", 8}, {"items", {{"enum", {"message.output_text.logprobs"}}}}}; }

json metadata_schema(const Limits&) { return {{"type", "object"}, {"maxProperties", 16}, {"additionalProperties", {{"type", "string"}}}}; }

json input_schema(const Limits& limits) {
  json item = messages_schema(limits)["items"];
  return {{"anyOf", {{{"type", "string"}}, {{"type", "array"}, {"minItems", 1}, {"maxItems", limits.items}, {"items", item}}}}};
}

constexpr ShapedField kMessages{
    "messages", messages_schema,
    "the conversation: role and content, text or a list of text parts; also assistant messages with tool_calls, and tool messages"};
constexpr ShapedField kPrompt{"prompt", prompt_schema,
                              "a text, a list of texts, token ids, or a list of lists of them; choice c of prompt p has index p * n + c"};
constexpr ShapedField kStop{"stop", stop_schema, "the answer ends before the first of these strings"};
constexpr ShapedField kStopTokenIds{"stop_token_ids", stop_ids_schema, "the answer ends before the first of these tokens"};
constexpr ShapedField kLogitBias{"logit_bias", bias_schema, "added to the logits of these token ids"};
constexpr ShapedField kChoices{"n", choices_schema, "answers to draw; for completions, at most so many over all prompts"};
constexpr ShapedField kBestOf{"best_of", choices_schema, "only equal to n"};
constexpr ShapedField kStreamOptions{"stream_options", stream_options_schema,
                                     "include_usage: usage in a last event without choices, null in all others; only with stream"};
constexpr ShapedField kResponseFormat{"response_format", format_schema, "only {\"type\": \"text\"}"};
constexpr ShapedField kTools{"tools", tools_schema, "functions that the template tells the model of; what it says of them comes as text"};
constexpr ShapedField kFlatTools{"tools", flat_tools_schema, "functions that the template tells the model of"};
constexpr ShapedField kToolChoice{"tool_choice", tool_choice_schema, "\"none\" leaves the tools out; a forced call is refused"};
constexpr ShapedField kContent{"content", string_schema, "llama.cpp's name of the text"};
constexpr ShapedField kTextPrompt{"prompt", string_schema, "vLLM's name of the text"};
constexpr ShapedField kTokens{"tokens", tokens_schema, "token ids"};
constexpr ShapedField kUser{"user", any_schema, "taken and ignored"};
constexpr ShapedField kMetadata{"metadata", any_schema, "taken and ignored"};
constexpr ShapedField kStore{"store", any_schema, "taken and ignored: chat completions are not kept"};
constexpr ShapedField kServiceTier{"service_tier", any_schema, "taken and ignored"};
constexpr ShapedField kInput{"input", input_schema, "a text, or a list of items: messages, function calls and their outputs"};

json continuations_schema(const Limits& limits) {
  json ids = token_ids();
  ids["minItems"] = 1;
  json text = {{"type", "string"}, {"minLength", 1}};
  return {{"type", "array"}, {"minItems", 1}, {"maxItems", limits.choices}, {"items", {{"anyOf", {text, ids}}}}};
}

constexpr ShapedField kContinuations{"continuations", continuations_schema,
                                     "texts, or lists of token ids, each to be scored as what follows the response"};

constexpr IntegerField kOutputTokens{"max_output_tokens", 1, kMostTokens, std::nullopt,
                                     "tokens of the answer, at most; absent: to the end of the context"};
constexpr FlagField kResponseStore{"store", true, "keep the response: it can be read, continued and resumed later"};
constexpr TextField kInstructions{"instructions", 1 << 20, "a system message for this response only"};
constexpr TextField kPreviousResponse{"previous_response_id", kNameBytes, "go on from this stored response"};
constexpr ShapedField kInclude{"include", include_schema, "message.output_text.logprobs: log-probabilities of the answer's tokens"};
constexpr ShapedField kMetadataKept{"metadata", metadata_schema, "kept with the response"};

using Fields = std::vector<Field>;
Fields operator+(Fields left, const Fields& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

const Fields& sampling() {
  static const Fields rows = {kTemperature,      kTopP, kTopK, kMinP, kSeed, kLogitBias, kPresencePenalty, kFrequencyPenalty,
                              kRepetitionPenalty};
  return rows;
}
const Fields& common() {
  static const Fields rows = {kStop, kStopTokenIds, kIgnoreEos, kCacheSalt, kPromptCacheKey, kPriority, kDeadlineMs};
  return rows;
}

std::vector<RequestSchema> make_schemas() {
  const Fields chat = Fields{kModel, kMessages, kMaxTokens, kMaxCompletionTokens, kChoices, kStream, kStreamOptions} + sampling() +
                      common() +
                      Fields{kLogprobs, kTopLogprobs, kPromptLogprobs, kAddGenerationPrompt, kResponseFormat, kTools, kToolChoice,
                             kUser,     kMetadata,    kStore,          kServiceTier};
  return {
      {"ChatRequest", {"messages"}, chat},
      {"CompletionRequest",
       {"prompt"},
       Fields{kModel, kPrompt, kCompletionTokens, kChoices, kBestOf, kEcho, kStream, kStreamOptions} + sampling() + common() +
           Fields{kCompletionLogprobs, kPromptLogprobs, kParseSpecial, kUser}},
      {"TokenizeRequest",
       {},
       {kModel, kContent, kTextPrompt, kMessages, kAddSpecial, kAddSpecialTokens, kParseSpecial, kAddGenerationPrompt, kWithPieces,
        kReturnTokenStrs, kTools, kToolChoice},
       {"content", "prompt", "messages"}},
      {"ResponseRequest",
       {},
       Fields{kModel, kInput, kInstructions, kPreviousResponse, kOutputTokens, kResponseStore, kStream} + sampling() + common() +
           Fields{kTopLogprobs, kInclude, kFlatTools, kToolChoice, kMetadataKept, kUser, kServiceTier},
       {"input", "previous_response_id"}},
      {"ResponseInputRequest",
       {},
       {kModel, kInput, kInstructions, kPreviousResponse, kFlatTools, kToolChoice},
       {"input", "previous_response_id"}},
      {"PinRequest", {"ttl_seconds"}, {kPinTtl}},
      {"SystemPromptRequest", {"name", "text"}, {kSystemPromptName, kSystemPromptText}},
      {"ScoreRequest", {"continuations"}, {kModel, kContinuations, kCacheSalt, kPriority, kDeadlineMs, kParseSpecial}},
      {"DetokenizeRequest", {"tokens"}, {kModel, kTokens}},
      {"TemplateRequest", {"messages"}, {kModel, kMessages, kAddGenerationPrompt, kTools, kToolChoice}},
  };
}

}  // namespace

std::span<const RequestSchema> request_schemas() {
  static const std::vector<RequestSchema> schemas = make_schemas();
  return schemas;
}

std::string_view name_of(const Field& field) {
  return std::visit([](const auto& row) { return row.name; }, field);
}

std::string_view help_of(const Field& field) {
  return std::visit([](const auto& row) { return row.help; }, field);
}

json schema_of(const Field& field, const Limits& limits) {
  return std::visit(Overloaded{
                        [](const FlagField& row) {
                          return json{{"type", "boolean"}, {"default", row.fallback}};
                        },
                        [](const NumberField& row) {
                          return json{{"type", "number"}, {"minimum", row.min}, {"maximum", row.max}, {"default", row.fallback}};
                        },
                        [](const IntegerField& row) {
                          json schema = {{"type", "integer"}, {"minimum", row.min}, {"maximum", row.max}};
                          if (row.fallback) schema["default"] = *row.fallback;
                          return schema;
                        },
                        [](const TextField& row) {
                          return json{{"type", "string"}, {"maxLength", row.max_bytes}};
                        },
                        [](const ChoiceField& row) {
                          return json{{"enum", row.values}, {"default", row.fallback}};
                        },
                        [&](const ShapedField& row) { return row.schema(limits); },
                    },
                    field);
}

}  // namespace troupe::gateway
