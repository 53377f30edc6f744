// How a prompt and the tokens wanted fit into the context. Pure function.
#pragma once
#include "messages/error.h"

#include <cstddef>
#include <cstdint>

namespace troupe::session {

/// Tokens that each choice may generate. `wanted` kNone32: all that the context leaves; `context` 0: unknown, left to the scheduler.
/// Errors: an empty prompt; kContextTooLong with both counts in its text.
Result<std::uint32_t> fit_context(std::size_t prompt, std::uint32_t wanted, std::uint32_t context);

}  // namespace troupe::session
