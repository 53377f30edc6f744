#include "tests/runtime/exec/equality_cases.h"

#include <catch2/catch.hpp>

#include <algorithm>

namespace troupe::test {
namespace {

/// splitmix64 (Vigna): the same prompts on every machine.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

LoopOptions options_of(const EqualityCase& c) {
  LoopOptions options;
  options.kv_format = c.kv_format;
  return options;
}

void check_equal(const std::vector<LoopOutput>& got, const std::vector<LoopOutput>& wanted) {
  REQUIRE(got.size() == wanted.size());
  for (std::size_t choice = 0; choice < got.size(); ++choice) {
    CAPTURE(choice);
    CHECK(difference(got[choice], wanted[choice]) == "");
  }
}

void check_all(EngineLoop& loop, const EqualityCase& c, const std::vector<RequestId>& ids) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    CAPTURE(i, c.requests[i].prompt.size());
    check_equal(loop.outputs(ids[i]), c.alone[i]);
  }
  CHECK_NOTHROW(loop.check_idle());
}

std::vector<RequestId> submit_all(EngineLoop& loop, const EqualityCase& c) {
  std::vector<RequestId> ids;
  for (const LoopRequest& request : c.requests) ids.push_back(loop.submit(request));
  return ids;
}

std::vector<LoopOutput> run_alone(LoadedModel& model, kernels::KvFormat kv_format, const LoopRequest& request, bool poison) {
  LoopOptions options;
  options.kv_format = kv_format;
  options.poison = poison;
  EngineLoop loop(model, options);
  return loop.generate(request);
}

}  // namespace

std::vector<TokenId> varied_prompt(std::size_t length, std::uint64_t seed, TokenId vocabulary) {
  std::vector<TokenId> tokens(length);
  for (std::size_t i = 0; i < length; ++i) tokens[i] = static_cast<TokenId>(3 + mix(seed * 1000003 + i) % (vocabulary - 3));
  return tokens;
}

std::vector<LoopRequest> varied_requests(std::size_t count, std::size_t longest, std::uint32_t max_tokens, TokenId vocabulary) {
  constexpr std::size_t kLengths[] = {1, 31, 32, 33, 5, 64, 65, 100, 150, 200};
  std::vector<LoopRequest> requests(count);
  for (std::size_t i = 0; i < count; ++i) {
    LoopRequest& request = requests[i];
    request.prompt = varied_prompt(std::min(longest, kLengths[i % std::size(kLengths)] + i / std::size(kLengths)), i, vocabulary);
    request.max_tokens = max_tokens;
    request.sampling.seed = 1000 + i;
    request.sampling.top_logprobs = static_cast<std::uint8_t>(i % 4);
    switch (i % 5) {
      case 1: break;  // the plain distribution
      case 2:
        request.sampling.temperature = 0.7F;
        request.sampling.top_p = 0.9F;
        break;
      case 3:
        request.sampling.temperature = 1.3F;
        request.sampling.top_k = 40;
        request.sampling.min_p = 0.02F;
        break;
      case 4:
        request.sampling.temperature = 0.9F;
        request.sampling.repetition_penalty = 1.2F;
        request.sampling.presence_penalty = 0.5F;
        request.sampling.frequency_penalty = 0.25F;
        request.sampling.bias_tokens = {7, 11};
        request.sampling.biases = {2.0F, -100.0F};
        break;
      default: request.sampling.temperature = 0.0F;
    }
  }
  return requests;
}

EqualityCase make_case(LoadedModel& model, kernels::KvFormat kv_format, std::vector<LoopRequest> requests) {
  EqualityCase c;
  c.model = &model;
  c.kv_format = kv_format;
  c.requests = std::move(requests);
  for (const LoopRequest& request : c.requests) {
    c.alone.push_back(run_alone(model, kv_format, request, false));
    for (const LoopOutput& output : c.alone.back()) {
      CAPTURE(output.error);
      REQUIRE(output.tokens.size() == request.max_tokens);
      REQUIRE(output.finish == schedule::Finish::kLength);
      REQUIRE(output.logprobs.chosen.size() == output.tokens.size());
    }
  }
  return c;
}

void check_batch(const EqualityCase& c) {
  EngineLoop loop(*c.model, options_of(c));
  const auto ids = submit_all(loop, c);
  loop.run();
  check_all(loop, c, ids);
}

void check_chunks(const EqualityCase& c, const std::vector<std::uint32_t>& sizes) {
  for (const std::uint32_t size : sizes) {
    CAPTURE(size);
    LoopOptions options = options_of(c);
    options.token_budget = size;
    options.min_chunk = std::min(options.min_chunk, size);
    EngineLoop loop(*c.model, options);
    const auto ids = submit_all(loop, c);
    loop.run();
    check_all(loop, c, ids);
    std::size_t prompts = 0;
    for (const LoopRequest& request : c.requests) prompts += request.prompt.size();
    CHECK(loop.stats().steps >= prompts / size);
  }
}

void check_prefix_cache(const EqualityCase& c) {
  EngineLoop loop(*c.model, options_of(c));
  for (std::size_t i = 0; i < c.requests.size(); ++i) {
    CAPTURE(i);
    const LoopRequest& request = c.requests[i];
    check_equal(loop.generate(request), c.alone[i]);
    const auto again = loop.generate(request);
    check_equal(again, c.alone[i]);
    CHECK(again[0].cache.tokens.device + 1 == request.prompt.size());  // all but the last position
    LoopRequest turn = request;
    turn.prompt.insert(turn.prompt.end(), again[0].tokens.begin(), again[0].tokens.end());
    turn.prompt.push_back(5);
    const auto next = loop.generate(turn);
    check_equal(next, run_alone(*c.model, c.kv_format, turn, false));
    CHECK(next[0].cache.tokens.device > 0);
  }
  CHECK_NOTHROW(loop.check_idle());
}

void check_forks(const EqualityCase& c, TokenId vocabulary, std::uint32_t max_tokens) {
  const auto trunk = varied_prompt(3 * kBlockTokens + 5, 77, vocabulary);
  EngineLoop loop(*c.model, options_of(c));
  LoopRequest request;
  request.prompt = trunk;
  request.max_tokens = 4;
  request.sampling.temperature = 0.0F;
  loop.generate(request);
  request.max_tokens = max_tokens;
  request.sampling.top_logprobs = 2;
  for (std::uint32_t offset = 0; offset < kBlockTokens; ++offset) {
    CAPTURE(offset);
    const std::uint32_t shared = kBlockTokens + offset;
    request.prompt.assign(trunk.begin(), trunk.begin() + shared);
    // The first token behind the fork differs from the trunk's, so the match ends exactly here.
    request.prompt.push_back(trunk[shared] == 9 ? 10 : 9);
    const auto suffix = varied_prompt(40, 500 + offset, vocabulary);
    request.prompt.insert(request.prompt.end(), suffix.begin(), suffix.end());
    const auto forked = loop.generate(request);
    CHECK(forked[0].cache.tokens.device == shared);
    check_equal(forked, run_alone(*c.model, c.kv_format, request, false));
  }
  CHECK_NOTHROW(loop.check_idle());
}

void check_preemption(const EqualityCase& c, std::uint32_t blocks) {
  LoopOptions options = options_of(c);
  options.blocks = blocks;
  EngineLoop loop(*c.model, options);
  const auto ids = submit_all(loop, c);
  loop.run();
  CHECK(loop.stats().preemptions > 0);
  check_all(loop, c, ids);
}

void check_epochs(const EqualityCase& c, const std::vector<int>& every) {
  for (const int steps : every) {
    CAPTURE(steps);
    LoopOptions options = options_of(c);
    options.token_budget = 64;
    EngineLoop loop(*c.model, options);
    const auto ids = submit_all(loop, c);
    constexpr int kRestarts = 6;
    for (int restart = 0; restart < kRestarts; ++restart) {
      for (int i = 0; i < steps; ++i) loop.step();
      loop.restart_group();
    }
    loop.run();
    check_all(loop, c, ids);
  }
}

void check_siblings(const EqualityCase& c) {
  constexpr std::uint16_t kChoices = 4;
  EngineLoop crowd(*c.model, options_of(c));
  std::vector<RequestId> ids;
  for (LoopRequest request : c.requests) {
    request.choices = kChoices;
    ids.push_back(crowd.submit(request));
  }
  crowd.run();
  for (std::size_t i = 0; i < c.requests.size(); ++i) {
    CAPTURE(i);
    LoopRequest request = c.requests[i];
    request.choices = kChoices;
    const auto siblings = crowd.outputs(ids[i]);
    check_equal(siblings, run_alone(*c.model, c.kv_format, request, true));
    CHECK(difference(siblings[0], c.alone[i][0]) == "");
    if (request.sampling.temperature == 0.0F)
      for (const LoopOutput& sibling : siblings) CHECK(difference(sibling, siblings[0]) == "");
    else
      CHECK(difference(siblings[1], siblings[0]) != "");
  }
  CHECK_NOTHROW(crowd.check_idle());
}

}  // namespace troupe::test
