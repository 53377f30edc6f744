#include "runtime/session/context_limit.h"

#include "messages/error_reasons.h"
#include "messages/ids.h"

#include <string>

namespace troupe::session {
namespace {

constexpr std::size_t kMostScores = 1U << 17;

std::string limit_text(std::uint32_t context) {
  return "This model's maximum context length is " + std::to_string(context) + " tokens. However, ";
}

}  // namespace

Status fit_text(std::size_t bytes, std::size_t longest, std::uint32_t context) {
  const std::uint64_t room = static_cast<std::uint64_t>(context) * longest;
  if (context == 0 || bytes <= room) return ok_status();
  return make_error(ErrorClass::kContextTooLong, ErrorReason::kContextLength,
                    limit_text(context) + "your prompt has " + std::to_string(bytes) + " bytes of text, and so many tokens hold at most " +
                        std::to_string(room) + ". Please shorten it.",
                    "messages");
}

Result<std::uint32_t> fit_context(std::size_t prompt, std::uint32_t wanted, std::uint32_t context) {
  if (prompt == 0) return make_error(ErrorClass::kInvalidRequest, ErrorReason::kInvalidValue, "The prompt is empty.", "prompt");
  if (context == 0) return wanted;
  const std::string limit = limit_text(context);
  if (prompt >= context && wanted != 0)
    return make_error(ErrorClass::kContextTooLong, ErrorReason::kContextLength,
                      limit + "your prompt has " + std::to_string(prompt) + " tokens. Please shorten it.", "messages");
  if (wanted == kNone32) return static_cast<std::uint32_t>(context - prompt);
  if (prompt + wanted > context)
    return make_error(ErrorClass::kContextTooLong, ErrorReason::kContextLength,
                      limit + "you requested " + std::to_string(prompt + wanted) + " tokens (" + std::to_string(prompt) +
                          " in the prompt, " + std::to_string(wanted) +
                          " in the completion). Please shorten the prompt or ask for fewer tokens.",
                      "messages");
  return wanted;
}

Status fit_scores(std::size_t prompt, std::size_t entries, std::size_t copies) {
  if (prompt * entries * copies <= kMostScores) return ok_status();
  return make_error(ErrorClass::kInvalidRequest, ErrorReason::kInvalidValue,
                    "Log-probabilities of " + std::to_string(prompt) + " prompt tokens, " + std::to_string(entries) + " a token, in " +
                        std::to_string(copies) + " choices are more than " + std::to_string(kMostScores) +
                        ". Please ask for fewer alternatives or choices, or shorten the prompt.",
                    "logprobs");
}

}  // namespace troupe::session
