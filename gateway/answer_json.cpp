// See answer_json.h.
#include "gateway/answer_json.h"

#include "gateway/error_body.h"
#include "messages/error_reasons.h"
#include "runtime/text/utf8.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace troupe::gateway {
namespace {

using nlohmann::json;

constexpr char kHex[] = "0123456789abcdef";
constexpr double kLowestLogprob = -9999.0;  // OpenAI's stand-in for minus infinity, which JSON cannot say
constexpr std::array<std::string_view, 8> kMissNames = {
    "none", "never_seen", "evicted", "other_domain", "cheaper_to_compute", "move_failed", "scores_wanted", "template_rewrote"};

json token_entry(std::string_view bytes, float logprob) {
  json list = json::array();
  for (unsigned char byte : bytes) list.push_back(byte);
  return {{"token", token_name(bytes)}, {"logprob", logprob_value(logprob)}, {"bytes", std::move(list)}};
}

}  // namespace

std::string_view text_of(capnp::Text::Reader text) { return {text.begin(), text.size()}; }
std::string_view bytes_of(capnp::Data::Reader data) { return {reinterpret_cast<const char*>(data.begin()), data.size()}; }

void append_json_string(std::string& out, std::string_view text) {
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

void UsageTotals::add(messages::RequestFinished::Reader finished) {
  prompt_ += finished.getPromptTokens();
  output_ += finished.getOutputTokens();
  reasoning_ += finished.getReasoningTokens();
  numerics_changed_ = numerics_changed_ || finished.getNumericsChanged();
  if (!finished.hasCache()) return;
  has_report_ = true;
  auto tokens = finished.getCache().getTokens();
  device_ += tokens.getDevice();
  host_ += tokens.getHost();
  disk_ += tokens.getDisk();
  computed_ += tokens.getComputed();
  load_us_ += finished.getCache().getLoadMicros();
  if (miss_ == messages::MissReason::NONE) miss_ = finished.getCache().getMiss();
}

json UsageTotals::cache_details() const {
  json details = {{"cached_tokens", device_ + host_ + disk_}};
  if (!has_report_) return details;
  auto miss = static_cast<std::size_t>(miss_);
  details["cache_report"] = {{"device", device_},
                             {"host", host_},
                             {"disk", disk_},
                             {"computed", computed_},
                             {"load_ms", static_cast<double>(load_us_) / 1000},
                             {"miss", miss < kMissNames.size() ? kMissNames[miss] : kMissNames[0]}};
  return details;
}

json UsageTotals::chat() const {
  json usage = {{"prompt_tokens", prompt_},
                {"completion_tokens", output_},
                {"total_tokens", prompt_ + output_},
                {"prompt_tokens_details", cache_details()},
                {"completion_tokens_details", {{"reasoning_tokens", reasoning_}}}};
  if (numerics_changed_) usage["numerics_changed"] = true;
  return usage;
}

json UsageTotals::responses() const {
  json usage = {{"input_tokens", prompt_},
                {"input_tokens_details", cache_details()},
                {"output_tokens", output_},
                {"output_tokens_details", {{"reasoning_tokens", reasoning_}}},
                {"total_tokens", prompt_ + output_}};
  if (numerics_changed_) usage["numerics_changed"] = true;
  return usage;
}

json chat_usage(messages::RequestFinished::Reader finished) {
  UsageTotals totals;
  totals.add(finished);
  return totals.chat();
}

json responses_usage(messages::RequestFinished::Reader finished) {
  UsageTotals totals;
  totals.add(finished);
  return totals.responses();
}

std::string token_name(std::string_view bytes) {
  if (text::to_valid_utf8(bytes) == bytes) return std::string(bytes);
  std::string name = "bytes:";
  for (unsigned char byte : bytes) (name += "\\x").append({kHex[byte >> 4], kHex[byte & 15]});
  return name;
}

double logprob_value(float logprob) { return std::isfinite(logprob) ? logprob : kLowestLogprob; }

json logprob_entries(messages::DeltaPiece::Reader piece, unsigned most) {
  json entries = json::array();
  auto logprobs = piece.getLogprobs();
  auto chosen = logprobs.getChosen();
  auto texts = piece.getTokenTexts();
  auto ids = logprobs.getIds();
  auto values = logprobs.getLogprobs();
  auto controls = piece.getControls();
  unsigned count = chosen.size();
  unsigned width = logprobs.getWidth();
  auto text_at = [&](unsigned index) { return index < texts.size() ? bytes_of(texts[index]) : std::string_view(); };
  for (unsigned i = 0; i < count; i++) {
    json entry = token_entry(text_at(i), chosen[i]);
    if (i < controls.size() && controls[i]) entry["bytes"] = nullptr;
    json top = json::array();
    for (unsigned k = i * width; k < i * width + std::min(width, most) && k < values.size() && k < ids.size(); k++) {
      bool has_text = count + k < texts.size();
      std::string name = has_text ? std::string() : "token_id:" + std::to_string(ids[k]);
      top.push_back(token_entry(has_text ? text_at(count + k) : std::string_view(name), values[k]));
    }
    entry["top_logprobs"] = std::move(top);
    entries.push_back(std::move(entry));
  }
  return entries;
}

std::string prompt_logprobs_text(messages::RequestFinished::Reader finished, unsigned most) {
  auto prompt = finished.getPromptIds();
  auto texts = finished.getTokenTexts();
  auto logprobs = finished.getPromptLogprobs();
  auto chosen = logprobs.getChosen();
  auto ids = logprobs.getIds();
  auto values = logprobs.getLogprobs();
  unsigned width = logprobs.getWidth();
  std::string out = "[";
  auto add = [&](std::uint32_t id, float logprob, std::optional<unsigned> rank, unsigned text) {
    out += out.back() == '{' ? "\"" : ",\"";
    out += std::to_string(id) + "\":{\"logprob\":" + to_text(logprob_value(logprob)) +
           ",\"rank\":" + (rank ? std::to_string(*rank) : "null") + ",\"decoded_token\":";
    append_json_string(out, text < texts.size() ? token_name(bytes_of(texts[text])) : std::string());
    out += '}';
  };
  unsigned unscored = prompt.size() - std::min(prompt.size(), chosen.size());
  for (unsigned i = 0; i < prompt.size(); i++) {
    if (i > 0) out += ',';
    if (i < unscored) {
      out += "null";
      continue;
    }
    unsigned at = i - unscored;
    out += '{';
    std::optional<unsigned> rank;
    for (unsigned k = 0; k < width && at * width + k < ids.size(); k++) {
      unsigned entry = at * width + k;
      bool itself = ids[entry] == prompt[i];
      if (itself) rank = k + 1;
      if (k < most && !itself) add(ids[entry], values[entry], k + 1, prompt.size() + entry);
    }
    add(prompt[i], chosen[at], rank, i);
    out += '}';
  }
  return out + "]";
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

Error answer_too_large(const Limits& limits) {
  return make_error(ErrorClass::kInvalidRequest, ErrorReason::kInvalidValue,
                    "the answer is larger than " + std::to_string(limits.answer >> 20) +
                        " MiB; ask for fewer choices, tokens or log-probabilities, or for a stream");
}

}  // namespace troupe::gateway
