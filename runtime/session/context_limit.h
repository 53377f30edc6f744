// How a prompt and the tokens wanted fit into the context. Pure function.
#pragma once
#include "messages/error.h"

#include <cstddef>
#include <cstdint>

namespace troupe::session {

/// The look before tokenizing: `bytes` of text against what `context` tokens of at most `longest` bytes can hold, so that megabytes that
/// never fit cost no tokenizing. `context` 0: unknown, all fits.
Status fit_text(std::size_t bytes, std::size_t longest, std::uint32_t context);

/// Tokens that each choice may generate. `wanted` kNone32: all that the context leaves; `context` 0: unknown, left to the scheduler.
/// Errors: an empty prompt; kContextTooLong with both counts in its text.
Result<std::uint32_t> fit_context(std::size_t prompt, std::uint32_t wanted, std::uint32_t context);

/// Bounds what log-probabilities of a prompt may weigh: `entries` a token (the chosen one's and the alternatives), in `copies` choices.
Status fit_scores(std::size_t prompt, std::size_t entries, std::size_t copies);

}  // namespace troupe::session
