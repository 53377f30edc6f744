// See answer_json.h.
#include "gateway/answer_json.h"

#include "gateway/error_body.h"
#include "messages/error_reasons.h"

#include <array>
#include <cmath>

namespace troupe::gateway {
namespace {

using nlohmann::json;

constexpr double kLowestLogprob = -9999.0;  // OpenAI's stand-in for minus infinity, which JSON cannot say
constexpr std::array<std::string_view, 8> kMissNames = {
    "none", "never_seen", "evicted", "other_domain", "cheaper_to_compute", "move_failed", "scores_wanted", "template_rewrote"};

std::uint32_t cached_tokens(messages::CacheReport::Reader cache) {
  auto tokens = cache.getTokens();
  return tokens.getDevice() + tokens.getHost() + tokens.getDisk();
}

json cache_details(messages::RequestFinished::Reader finished) {
  auto cache = finished.getCache();
  auto tokens = cache.getTokens();
  json details = {{"cached_tokens", cached_tokens(cache)}};
  if (!finished.hasCache()) return details;
  auto miss = static_cast<std::size_t>(cache.getMiss());
  details["cache_report"] = {{"device", tokens.getDevice()},
                             {"host", tokens.getHost()},
                             {"disk", tokens.getDisk()},
                             {"computed", tokens.getComputed()},
                             {"miss", miss < kMissNames.size() ? kMissNames[miss] : kMissNames[0]}};
  return details;
}

json token_entry(std::string_view bytes, float logprob) {
  json list = json::array();
  for (unsigned char byte : bytes) list.push_back(byte);
  double value = std::isfinite(logprob) ? logprob : kLowestLogprob;
  return {{"token", std::string(bytes)}, {"logprob", value}, {"bytes", std::move(list)}};
}

std::string_view bytes_of(capnp::Data::Reader data) { return {reinterpret_cast<const char*>(data.begin()), data.size()}; }

}  // namespace

std::string_view text_of(capnp::Text::Reader text) { return {text.begin(), text.size()}; }

void append_json_string(std::string& out, std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  out += '"';
  for (char c : text) {
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\t': out += "\\t"; break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out += "\\u00";
          out += kHex[static_cast<unsigned char>(c) >> 4];
          out += kHex[c & 15];
        } else {
          out += c;
        }
    }
  }
  out += '"';
}

json chat_usage(messages::RequestFinished::Reader finished) {
  json usage = {{"prompt_tokens", finished.getPromptTokens()},
                {"completion_tokens", finished.getOutputTokens()},
                {"total_tokens", finished.getPromptTokens() + finished.getOutputTokens()},
                {"prompt_tokens_details", cache_details(finished)},
                {"completion_tokens_details", {{"reasoning_tokens", finished.getReasoningTokens()}}}};
  if (finished.getNumericsChanged()) usage["numerics_changed"] = true;
  return usage;
}

json responses_usage(messages::RequestFinished::Reader finished) {
  json usage = {{"input_tokens", finished.getPromptTokens()},
                {"input_tokens_details", cache_details(finished)},
                {"output_tokens", finished.getOutputTokens()},
                {"output_tokens_details", {{"reasoning_tokens", finished.getReasoningTokens()}}},
                {"total_tokens", finished.getPromptTokens() + finished.getOutputTokens()}};
  if (finished.getNumericsChanged()) usage["numerics_changed"] = true;
  return usage;
}

json logprob_entries(messages::DeltaPiece::Reader piece) {
  json entries = json::array();
  auto logprobs = piece.getLogprobs();
  auto chosen = logprobs.getChosen();
  auto texts = piece.getTokenTexts();
  auto ids = logprobs.getIds();
  auto values = logprobs.getLogprobs();
  unsigned count = chosen.size();
  unsigned width = logprobs.getWidth();
  auto text_at = [&](unsigned index) { return index < texts.size() ? bytes_of(texts[index]) : std::string_view(); };
  for (unsigned i = 0; i < count; i++) {
    json entry = token_entry(text_at(i), chosen[i]);
    json top = json::array();
    for (unsigned k = i * width; k < (i + 1) * width && k < values.size() && k < ids.size(); k++) {
      bool has_text = count + k < texts.size();
      std::string name = has_text ? std::string() : "token_id:" + std::to_string(ids[k]);
      top.push_back(token_entry(has_text ? text_at(count + k) : std::string_view(name), values[k]));
    }
    entry["top_logprobs"] = std::move(top);
    entries.push_back(std::move(entry));
  }
  return entries;
}

std::string_view finish_reason(messages::FinishReason reason) {
  switch (reason) {
    case messages::FinishReason::STOP: return "stop";
    case messages::FinishReason::LENGTH: return "length";
    case messages::FinishReason::TOOL_CALLS: return "tool_calls";
    case messages::FinishReason::CANCELLED: break;
  }
  return {};
}

std::optional<Error> failure_of(messages::RequestFinished::Reader finished) {
  auto outcome = finished.getOutcome();
  if (outcome.isError()) return from_wire(outcome.getError());
  if (!outcome.isChoices()) return make_error(ErrorClass::kInternal, ErrorReason::kUnclassified, "the answer has no choices");
  for (auto choice : outcome.getChoices())
    if (finish_reason(choice.getReason()).empty())
      return make_error(ErrorClass::kCancelled, ErrorReason::kCancelled, "the request was cancelled before its end");
  return std::nullopt;
}

}  // namespace troupe::gateway
