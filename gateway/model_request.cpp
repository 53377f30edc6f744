// See model_request.h.
#include "gateway/model_request.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

namespace troupe::gateway {
namespace {

struct UnsupportedField {
  std::string_view name;
  std::string_view neutral;  // a value that asks for nothing, as JSON, besides null, false, 0 and what is empty
};
constexpr UnsupportedField kUnsupported[] = {
    // OpenAI
    {"functions", ""},
    {"function_call", "\"none\""},
    {"audio", ""},
    {"modalities", "[\"text\"]"},
    {"web_search_options", ""},
    {"reasoning_effort", "\"none\""},
    {"verbosity", "\"medium\""},
    {"suffix", ""},
    // vLLM
    {"use_beam_search", ""},
    {"length_penalty", "1.0"},
    {"min_tokens", ""},
    {"include_stop_str_in_output", ""},
    {"return_token_ids", ""},
    {"bad_words", ""},
    {"allowed_token_ids", ""},
    {"logits_processors", ""},
    {"truncate_prompt_tokens", ""},
    {"continue_final_message", ""},
    {"chat_template", ""},
    {"chat_template_kwargs", ""},
    {"documents", ""},
    {"guided_json", ""},
    {"guided_regex", ""},
    {"guided_choice", ""},
    {"guided_grammar", ""},
    {"structured_outputs", ""},
    {"prompt_embeds", ""},
    {"return_tokens_as_token_ids", ""},
    // llama.cpp
    {"grammar", ""},
    {"json_schema", ""},
    {"typical_p", "1.0"},
    {"mirostat", ""},
    {"dry_multiplier", ""},
    {"xtc_probability", ""},
    {"dynatemp_range", ""},
    {"lora", ""},
    {"n_predict", ""},
    {"n_probs", ""},
    {"samplers", ""},
    {"repeat_penalty", "1.0"},
    // SGLang
    {"regex", ""},
    {"ebnf", ""},
    {"min_new_tokens", ""},
    {"no_stop_trim", ""},
};

bool is_named(const nlohmann::json& function) { return function.is_object() && function.value("name", nlohmann::json()).is_string(); }

bool asks_for_nothing(const nlohmann::json& value) {
  return value == false || value == 0 || ((value.is_string() || value.is_structured()) && value.empty()) || value == "";
}

void parse_bias(JsonFields& fields, const Limits& limits, Sampling& out) {
  const auto* bias = fields.object("logit_bias");
  if (bias == nullptr) return;
  if (bias->size() > limits.bias_entries)
    return fields.fail("logit_bias", "must have at most " + std::to_string(limits.bias_entries) + " entries");
  for (const auto& [key, value] : bias->items()) {
    TokenId token = 0;
    auto [end, status] = std::from_chars(key.data(), key.data() + key.size(), token);
    if (key.empty() || status != std::errc() || end != key.data() + key.size())
      return fields.fail("logit_bias", "must have token ids as its keys");
    if (!value.is_number() || !(std::abs(value.get<double>()) <= 100))
      return fields.fail("logit_bias", "must have numbers from -100 to 100 as its values");
    out.biases.emplace_back(token, value.get<double>());
  }
  std::sort(out.biases.begin(), out.biases.end());
  auto twice = std::adjacent_find(out.biases.begin(), out.biases.end(), [](const auto& a, const auto& b) { return a.first == b.first; });
  if (twice != out.biases.end()) fields.fail("logit_bias", "must name each token once");  // "7" and "07"
}

void parse_stops(JsonFields& fields, const Limits& limits, ModelRequest& out) {
  const auto* stop = fields.find("stop");
  if (stop == nullptr) return;
  std::string rule = "must be a string or an array of at most " + std::to_string(limits.stops) + " strings, each of 1 to " +
                     std::to_string(limits.stop_bytes) + " bytes";
  auto take = [&](const nlohmann::json& entry) {
    bool fits = entry.is_string() && !entry.get_ref<const std::string&>().empty() &&
                entry.get_ref<const std::string&>().size() <= limits.stop_bytes;
    if (fits)
      out.stops.push_back(entry.get<std::string>());
    else
      fields.fail("stop", rule);
  };
  if (stop->is_array() && stop->size() <= limits.stops) {
    for (const auto& entry : *stop) take(entry);
  } else {
    take(*stop);
  }
}

capnp::Text::Reader reader_of(const std::string& text) { return capnp::Text::Reader(text.c_str(), text.size()); }

void write_hash(messages::Hash128::Builder out, const Hash128& hash) {
  out.setHigh(hash.high);
  out.setLow(hash.low);
}

void write_sampling(messages::SamplingParameters::Builder out, const Sampling& sampling) {
  out.setTemperature(static_cast<float>(sampling.temperature));
  // The schema wants (0, 1]; a top_p of 0 means "only the best", which the smallest positive value gives.
  out.setTopP(std::max(static_cast<float>(sampling.top_p), std::numeric_limits<float>::min()));
  out.setMinP(static_cast<float>(sampling.min_p));
  out.setTopK(sampling.top_k);
  out.setSeed(sampling.seed);
  out.setRepetitionPenalty(static_cast<float>(sampling.repetition_penalty));
  out.setPresencePenalty(static_cast<float>(sampling.presence_penalty));
  out.setFrequencyPenalty(static_cast<float>(sampling.frequency_penalty));
  auto count = static_cast<unsigned>(sampling.biases.size());
  if (count > 0) {
    auto tokens = out.initBiasTokens(count);
    auto biases = out.initBiases(count);
    for (unsigned i = 0; i < count; i++) {
      tokens.set(i, sampling.biases[i].first);
      biases.set(i, static_cast<float>(sampling.biases[i].second));
    }
  }
  out.setTopLogprobs(sampling.top_logprobs);
}

void write_input(messages::SubmitRequest::Builder out, const ModelRequest& request) {
  if (request.prompt_text) return out.getInput().setText(reader_of(*request.prompt_text));
  if (request.prompt_tokens) {
    auto tokens = out.getInput().initTokens(static_cast<unsigned>(request.prompt_tokens->size()));
    for (unsigned i = 0; i < tokens.size(); i++) tokens.set(i, (*request.prompt_tokens)[i]);
    return;
  }
  const auto& items = request.items;
  auto list = out.getInput().initItems(static_cast<unsigned>(items.size()));
  for (unsigned i = 0; i < items.size(); i++) {
    list[i].setRole(reader_of(items[i].role));
    list[i].setText(reader_of(items[i].text));
    if (!items[i].name.empty()) list[i].setName(reader_of(items[i].name));
    if (!items[i].call_id.empty()) list[i].setCallId(reader_of(items[i].call_id));
    if (!items[i].arguments.empty()) list[i].setArguments(reader_of(items[i].arguments));
  }
}

}  // namespace

std::optional<TokenId> parse_token_id(const nlohmann::json& value) {
  if (!value.is_number()) return std::nullopt;
  double number = value.get<double>();  // exact: ids have 32 bits
  if (!(number >= 0 && number < kNone32) || number != std::floor(number)) return std::nullopt;
  return static_cast<TokenId>(number);
}

Sampling parse_sampling(JsonFields& fields, const Limits& limits) {
  Sampling out;
  out.temperature = fields.number(fields::kTemperature);
  out.top_p = fields.number(fields::kTopP);
  out.min_p = fields.number(fields::kMinP);
  out.top_k = static_cast<std::uint32_t>(std::max<std::int64_t>(fields.integer(fields::kTopK), 0));  // -1 and 0 = off
  out.presence_penalty = fields.number(fields::kPresencePenalty);
  out.frequency_penalty = fields.number(fields::kFrequencyPenalty);
  out.repetition_penalty = fields.number(fields::kRepetitionPenalty);
  if (fields.find(fields::kSeed.name) != nullptr) {
    out.seed = static_cast<std::uint64_t>(fields.integer(fields::kSeed));
    out.seed_given = true;
  }
  parse_bias(fields, limits, out);
  return out;
}

void parse_common(JsonFields& fields, const Limits& limits, ModelRequest& out) {
  out.model = fields.text(fields::kModel);
  parse_stops(fields, limits, out);
  if (const auto* ids = fields.array("stop_token_ids", limits.stops)) {
    for (const auto& id : *ids) {
      if (auto token = parse_token_id(id))
        out.stop_tokens.push_back(*token);
      else
        fields.fail("stop_token_ids", "must hold token ids");
    }
  }
  out.ignore_eos = fields.boolean(fields::kIgnoreEos);
  out.priority = static_cast<std::int32_t>(fields.integer(fields::kPriority));
  out.deadline_ms = static_cast<std::uint32_t>(fields.integer(fields::kDeadlineMs, 0));
  auto salt = fields.text(fields::kCacheSalt);
  auto cache_key = fields.text(fields::kPromptCacheKey);
  out.cache_salt = salt.empty() ? cache_key : salt;
}

void parse_tools(JsonFields& fields, const JsonBody& body, ModelRequest& out) {
  if (const auto* tools = fields.array("tools", fields::kMostTools); tools != nullptr && !tools->empty()) {
    for (std::size_t i = 0; i < tools->size(); i++) {
      const auto& tool = (*tools)[i];
      auto where = "tools[" + std::to_string(i) + "]";
      if (!tool.is_object() || tool.value("type", nlohmann::json()) != "function")
        fields.unsupported(where, "must be a tool of type \"function\"");
      else if (!is_named(tool.value("function", tool)))  // Responses has no level between
        fields.fail(where, "must have a function with a name");
    }
    out.tools_json = body.text_of("tools");
  }
  const auto* choice = fields.find("tool_choice");
  if (choice == nullptr || *choice == "auto") return;
  if (*choice == "none") {
    out.tools_json.clear();
    return;
  }
  fields.unsupported("tool_choice", "must be \"auto\" or \"none\": a forced tool call is not supported");
}

void refuse_response_format(JsonFields& fields) {
  const auto* format = fields.object("response_format");
  if (format == nullptr) return;
  if (auto type = format->find("type"); type == format->end() || *type != "text")
    fields.unsupported("response_format.type", "must be \"text\": structured output is not supported yet");
}

void refuse_unsupported(JsonFields& fields) {
  for (const auto& [name, neutral] : kUnsupported) {
    const auto* value = fields.find(name);
    if (value == nullptr || asks_for_nothing(*value) || (!neutral.empty() && value->dump() == neutral)) continue;
    fields.unsupported(name, "is not supported" + (neutral.empty() ? std::string() : "; leave it out or say " + std::string(neutral)));
  }
}

void refuse_moved(JsonFields& fields, std::span<const MovedField> moved) {
  for (const auto& [name, rule] : moved)
    if (const auto* value = fields.find(name); value != nullptr && *value != false) fields.unsupported(name, rule);
}

void want_logprobs(ModelRequest& out) {
  if (out.prompt_logprobs) out.score_from = 0;
  if (out.logprobs || out.prompt_logprobs) out.sampling.top_logprobs = std::max(out.logprobs.value_or(0), out.prompt_logprobs.value_or(0));
}

std::string parse_content(JsonFields& fields, std::string_view name) {
  const auto* content = fields.find(name);
  if (content == nullptr) return {};
  if (content->is_string()) return content->get<std::string>();
  std::string joined;
  if (!content->is_array()) {
    fields.fail(name, "must be a string or an array of text parts");
    return {};
  }
  for (std::size_t i = 0; i < content->size(); i++) {
    const auto& part = (*content)[i];
    auto where = std::string(name) + "[" + std::to_string(i) + "]";
    if (!part.is_object()) {
      fields.fail(where, "must be an object");
      return {};
    }
    auto type = part.find("type");
    bool is_text = type != part.end() && (*type == "text" || *type == "input_text" || *type == "output_text");
    if (!is_text) {
      fields.unsupported(where + ".type", "must be \"text\", \"input_text\" or \"output_text\": other content is not supported");
      return {};
    }
    auto text = part.find("text");
    if (text == part.end() || !text->is_string()) {
      fields.fail(where + ".text", "must be a string");
      return {};
    }
    joined += text->get_ref<const std::string&>();
  }
  return joined;
}

Message<messages::SubmitRequest> build_submit(RequestId id, const ModelRequest& request) {
  return Message<messages::SubmitRequest>::build([&](messages::SubmitRequest::Builder out) {
    out.setRequest(id.value);
    out.setEndpoint(request.endpoint);
    out.setModel(reader_of(request.model));
    write_hash(out.initOwner(), request.owner);
    out.setConnection(request.connection);
    if (!request.lane.empty()) out.setLane(reader_of(request.lane));
    if (!request.response_id.empty()) out.setResponseId(reader_of(request.response_id));
    if (!request.previous_response_id.empty()) out.setPreviousResponseId(reader_of(request.previous_response_id));
    out.setRetention(request.retention);
    if (!request.cache_salt.empty()) out.setCacheSalt(reader_of(request.cache_salt));
    out.setPriority(request.priority);
    out.setDeadlineMs(request.deadline_ms);
    write_input(out, request);
    out.setParseSpecial(request.parse_special);
    out.setAddSpecial(request.add_special);
    out.setGenerationPrompt(request.generation_prompt);
    if (!request.instructions.empty()) out.setInstructions(reader_of(request.instructions));
    if (!request.tools_json.empty()) out.setToolsJson(reader_of(request.tools_json));
    if (!request.tool_choice_json.empty()) out.setToolChoiceJson(reader_of(request.tool_choice_json));
    write_sampling(out.initSampling(), request.sampling);
    out.setChoices(request.choices);
    out.setMaxTokens(request.max_tokens);
    auto stops = out.initStops(static_cast<unsigned>(request.stops.size()));
    for (unsigned i = 0; i < request.stops.size(); i++) stops.set(i, reader_of(request.stops[i]));
    auto stop_tokens = out.initStopTokens(static_cast<unsigned>(request.stop_tokens.size()));
    for (unsigned i = 0; i < request.stop_tokens.size(); i++) stop_tokens.set(i, request.stop_tokens[i]);
    out.setIgnoreEos(request.ignore_eos);
    out.setEcho(request.echo);
    out.setScoreFrom(request.score_from);
    out.setScoreContinuation(request.score_continuation);
    out.setStream(request.stream);
    out.setCredit(request.credit);
    auto domains = out.initKeyDomains(static_cast<unsigned>(request.key_domains.size()));
    for (unsigned i = 0; i < request.key_domains.size(); i++) write_hash(domains[i], request.key_domains[i]);
  });
}

}  // namespace troupe::gateway
