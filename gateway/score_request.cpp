// See score_request.h.
#include "gateway/score_request.h"

#include "gateway/completion_request.h"

namespace troupe::gateway {
namespace {

constexpr std::string_view kRule = "must be an array of texts, or of arrays of token ids, none of them empty";

}  // namespace

Result<ScoreRequest> parse_score_request(const JsonBody& body, const Limits& limits) {
  std::optional<Error> error;
  JsonFields fields(body.value, "", error);
  ModelRequest common;
  common.endpoint = messages::Endpoint::COMPLETIONS;
  common.model = fields.text(fields::kModel);
  common.cache_salt = fields.text(fields::kCacheSalt);
  common.priority = static_cast<std::int32_t>(fields.integer(fields::kPriority));
  common.deadline_ms = static_cast<std::uint32_t>(fields.integer(fields::kDeadlineMs, 0));
  common.parse_special = fields.boolean(fields::kParseSpecial);
  common.max_tokens = 0;
  common.prompt_logprobs = static_cast<std::uint8_t>(0);
  common.score_continuation = true;
  want_logprobs(common);
  common.sampling.temperature = 0;
  common.sampling.seed_given = true;
  ScoreRequest out;
  const auto* list = fields.array("continuations", limits.choices);
  if (list == nullptr || list->empty()) fields.missing("continuations", kRule);
  for (std::size_t i = 0; list != nullptr && i < list->size() && !error; i++) {
    const auto& entry = (*list)[i];
    const auto name = "continuations[" + std::to_string(i) + "]";
    auto& request = out.continuations.emplace_back(common);
    if (entry.is_string() && !entry.get_ref<const std::string&>().empty())
      request.prompt_text = entry.get<std::string>();
    else if (entry.is_array() && !entry.empty())
      parse_token_ids(fields, name, entry, request.prompt_tokens.emplace());
    else
      fields.fail(name, "must be a text or an array of token ids, and not empty");
  }
  if (error) return *error;
  return out;
}

}  // namespace troupe::gateway
