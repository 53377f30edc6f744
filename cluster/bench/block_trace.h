// Block traces: which blocks of K and V the requests of a real service would have shared. One request a line, its blocks in order as runs
// "first" or "first+count" of ids; equal ids at the start of two lines are an equal prefix (tests/data/traces). Pure; any thread.
#pragma once
#include "messages/error.h"
#include "messages/ids.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace troupe::cluster::bench {

using TraceRequest = std::vector<std::uint32_t>;  // ids of its blocks

/// The first `requests` of the file. Errors name the line: what is no run, a request without a block or of more than kMostTraceBlocks.
Result<std::vector<TraceRequest>> read_block_trace(const std::string& path, std::size_t requests);
inline constexpr std::size_t kMostTraceBlocks = 1 << 16;

/// A prompt of kBlockTokens tokens a block, the same for equal ids and one seed, of ids that every vocabulary of 256 has. At most
/// `most_tokens`: what is longer is cut behind a whole block.
std::vector<TokenId> trace_prompt(const TraceRequest& request, std::uint64_t seed, std::size_t most_tokens);

}  // namespace troupe::cluster::bench
