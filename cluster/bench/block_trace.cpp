// See block_trace.h.
#include "cluster/bench/block_trace.h"

#include "messages/error_reasons.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>
#include <random>
#include <string_view>

namespace troupe::cluster::bench {
namespace {

constexpr TokenId kFirstToken = 32, kTokens = 224;  // ordinary ones of every vocabulary of 256 and more

/// Appends the blocks of "first" or "first+count"; false: it is neither, or too many.
bool take_run(std::string_view run, TraceRequest& to) {
  std::uint32_t first = 0, count = 1;
  const char* end = run.data() + run.size();
  auto [at, fault] = std::from_chars(run.data(), end, first);
  if (fault != std::errc()) return false;
  if (at != end) {
    if (*at != '+') return false;
    const auto [stop, bad] = std::from_chars(at + 1, end, count);
    if (bad != std::errc() || stop != end || count == 0) return false;
  }
  if (count > kMostTraceBlocks - to.size() || first > std::numeric_limits<std::uint32_t>::max() - count) return false;
  for (std::uint32_t i = 0; i < count; ++i) to.push_back(first + i);
  return true;
}

bool take_line(std::string_view line, TraceRequest& to) {
  while (!line.empty()) {
    const std::size_t space = std::min(line.find(' '), line.size());
    if (space > 0 && !take_run(line.substr(0, space), to)) return false;
    line.remove_prefix(std::min(space + 1, line.size()));
  }
  return !to.empty();
}

Error bad(std::string text) { return make_error(ErrorClass::kInvalidRequest, ErrorReason::kBadConfig, std::move(text), "trace"); }

}  // namespace

Result<std::vector<TraceRequest>> read_block_trace(const std::string& path, std::size_t requests) {
  std::ifstream file(path);
  if (!file) return bad("--trace: cannot read " + path);
  std::vector<TraceRequest> trace;
  for (std::string line; trace.size() < requests && std::getline(file, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (!take_line(line, trace.emplace_back()))
      return bad("--trace: line " + std::to_string(trace.size()) + " of " + path + " is not 1 to " + std::to_string(kMostTraceBlocks) +
                 " blocks as runs FIRST or FIRST+COUNT");
  }
  if (trace.empty()) return bad("--trace: " + path + " holds no request");
  return trace;
}

std::vector<TokenId> trace_prompt(const TraceRequest& request, std::uint64_t seed, std::size_t most_tokens) {
  std::vector<TokenId> tokens;
  const std::size_t blocks = std::min(request.size(), std::max<std::size_t>(1, most_tokens / kBlockTokens));
  tokens.reserve(blocks * kBlockTokens);
  for (std::size_t i = 0; i < blocks; ++i) {
    std::seed_seq mixed{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32), request[i]};
    std::mt19937 dice(mixed);
    for (std::uint32_t t = 0; t < kBlockTokens; ++t) tokens.push_back(kFirstToken + static_cast<TokenId>(dice() % kTokens));
  }
  return tokens;
}

}  // namespace troupe::cluster::bench
