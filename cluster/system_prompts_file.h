// The file of --system-prompts: TOML with one [[prompt]] each, of a name and either its text or the file that holds it. Read once, at
// start.
#pragma once
#include "gateway/system_prompt.h"
#include "messages/error.h"

#include <string>

namespace troupe::cluster {

/// In the order of the file; none for an empty path. A prompt's own file loses one line end at its end, which editors put there. Errors, in
/// one line, name the file, the prompt and the field, never a text.
Result<gateway::SystemPrompts> read_system_prompts(const std::string& path);

}  // namespace troupe::cluster
