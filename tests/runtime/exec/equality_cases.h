// Same tokens, whatever the path: each function takes requests, knows what they give when they run alone, and checks that another
// way through the engine gives the same tokens and log-probabilities, bit for bit. Shared by the tiny models (every format, every
// ISA level) and the default model.
#pragma once
#include "tests/support/engine_loop.h"

#include <vector>

namespace troupe::test {

struct EqualityCase {
  LoadedModel* model = nullptr;
  kernels::KvFormat kv_format = kernels::KvFormat::kInt8;
  std::vector<LoopRequest> requests;
  std::vector<std::vector<LoopOutput>> alone;  // one entry a request, by choice
};

/// Requests of many lengths, greedy and drawn, with penalties and log-probabilities.
std::vector<LoopRequest> varied_requests(std::size_t count, std::size_t longest, std::uint32_t max_tokens, TokenId vocabulary);
std::vector<TokenId> varied_prompt(std::size_t length, std::uint64_t seed, TokenId vocabulary);
/// Runs every request alone, in one chunk, in clean memory.
EqualityCase make_case(LoadedModel& model, kernels::KvFormat kv_format, std::vector<LoopRequest> requests);

void check_batch(const EqualityCase& c);
/// One loop per size, all requests together, at most `size` rows a step.
void check_chunks(const EqualityCase& c, const std::vector<std::uint32_t>& sizes);
/// Each request twice in one loop, then continued with its own output.
void check_prefix_cache(const EqualityCase& c);
/// Prompts that leave a cached one at every offset of its second block.
void check_forks(const EqualityCase& c, TokenId vocabulary, std::uint32_t max_tokens);
/// All requests in a pool that is too small for them.
void check_preemption(const EqualityCase& c, std::uint32_t blocks);
/// The shard's epoch ends after every `every` steps.
void check_epochs(const EqualityCase& c, const std::vector<int>& every);
/// n siblings in a crowd against n siblings alone, and against one choice.
void check_siblings(const EqualityCase& c);

}  // namespace troupe::test
