#include "runtime/session/context_limit.h"

#include "messages/error_reasons.h"
#include "messages/ids.h"

#include <string>

namespace troupe::session {

Result<std::uint32_t> fit_context(std::size_t prompt, std::uint32_t wanted, std::uint32_t context) {
  if (prompt == 0) return make_error(ErrorClass::kInvalidRequest, ErrorReason::kInvalidValue, "The prompt is empty.", "prompt");
  if (context == 0) return wanted;
  const std::string limit = "This model's maximum context length is " + std::to_string(context) + " tokens. However, ";
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

}  // namespace troupe::session
