// See model_request.h.
#include "gateway/model_request.h"

#include <algorithm>
#include <charconv>
#include <limits>

namespace troupe::gateway {
namespace {

constexpr std::size_t kMaxName = 256;  // bytes of a salt or name
constexpr std::size_t kMaxTools = 128;
constexpr std::int64_t kMaxDeadlineMs = 86'400'000;  // a day

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

void write_items(messages::SubmitRequest::Builder out, const std::vector<InputItem>& items) {
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

Sampling parse_sampling(JsonFields& fields, const Limits& limits) {
  Sampling out;
  out.temperature = fields.number("temperature", 0, 2, 1);
  out.top_p = fields.number("top_p", 0, 1, 1);
  out.min_p = fields.number("min_p", 0, 1, 0);
  auto top_k = fields.integer("top_k", -1, std::numeric_limits<std::int32_t>::max(), 0);
  out.top_k = static_cast<std::uint32_t>(std::max<std::int64_t>(top_k, 0));  // -1 and 0 = off
  out.presence_penalty = fields.number("presence_penalty", -2, 2, 0);
  out.frequency_penalty = fields.number("frequency_penalty", -2, 2, 0);
  out.repetition_penalty = fields.number("repetition_penalty", 0.01, 10, 1);
  if (fields.find("seed") != nullptr) {
    out.seed = static_cast<std::uint64_t>(
        fields.integer("seed", std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max(), 0));
    out.seed_given = true;
  }
  parse_bias(fields, limits, out);
  return out;
}

void parse_common(JsonFields& fields, const Limits& limits, ModelRequest& out) {
  out.model = fields.text("model", kMaxName);
  parse_stops(fields, limits, out);
  if (const auto* ids = fields.array("stop_token_ids", limits.stops)) {
    for (const auto& id : *ids) {
      if (id.is_number_unsigned() && id.get<std::uint64_t>() < kNone32)
        out.stop_tokens.push_back(id.get<TokenId>());
      else
        fields.fail("stop_token_ids", "must hold token ids");
    }
  }
  out.ignore_eos = fields.boolean("ignore_eos", false);
  out.priority = static_cast<std::int32_t>(
      fields.integer("priority", std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max(), 0));
  out.deadline_ms = static_cast<std::uint32_t>(fields.integer("deadline_ms", 1, kMaxDeadlineMs, 0));
  auto salt = fields.text("cache_salt", kMaxName);
  auto cache_key = fields.text("prompt_cache_key", kMaxName);
  out.cache_salt = salt.empty() ? cache_key : salt;
}

void parse_tools(JsonFields& fields, ModelRequest& out) {
  if (const auto* tools = fields.array("tools", kMaxTools); tools != nullptr && !tools->empty()) {
    for (std::size_t i = 0; i < tools->size(); i++) {
      const auto& tool = (*tools)[i];
      if (!tool.is_object() || tool.value("type", nlohmann::json()) != "function")
        fields.unsupported("tools[" + std::to_string(i) + "]", "must be a tool of type \"function\"");
    }
    out.tools_json = tools->dump();
  }
  const auto* choice = fields.find("tool_choice");
  if (choice == nullptr || *choice == "auto") return;
  if (*choice == "none") {
    out.tools_json.clear();
    return;
  }
  fields.unsupported("tool_choice", "must be \"auto\" or \"none\": a forced tool call is not supported");
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
    write_items(out, request.items);
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
    out.setStream(request.stream);
    out.setCredit(request.credit);
    auto domains = out.initKeyDomains(static_cast<unsigned>(request.key_domains.size()));
    for (unsigned i = 0; i < request.key_domains.size(); i++) write_hash(domains[i], request.key_domains[i]);
  });
}

}  // namespace troupe::gateway
