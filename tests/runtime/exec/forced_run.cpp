#include "tests/runtime/exec/forced_run.h"

#include "runtime/text/tokenizer.h"
#include "runtime/weights/gguf_file.h"
#include "tests/support/load_model.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <numeric>
#include <stdexcept>

namespace troupe::test {

RunPlan run_on(exec::Executor& executor) {
  return [&executor](const plan::ForwardPlan& plan) {
    const std::atomic<bool> abort{false};
    return executor.run(plan, abort);
  };
}

std::vector<GoldenCase> read_golden() {
  std::ifstream file(TROUPE_TEST_DATA "/golden/smollm2_q4_1_greedy.json");
  if (!file) throw std::runtime_error("tests/data/golden/smollm2_q4_1_greedy.json is missing");
  const auto json = nlohmann::json::parse(file);
  std::vector<GoldenCase> cases;
  for (const auto& entry : json.at("cases")) {
    GoldenCase golden;
    golden.id = entry.at("id").get<std::string>();
    golden.prompt = entry.at("prompt_ids").get<std::vector<TokenId>>();
    const auto ids = entry.at("greedy_ids").get<std::vector<TokenId>>();
    for (std::size_t i = 0; i < ids.size(); ++i) {
      GoldenStep step;
      step.best = ids[i];
      step.margin = entry.at("margin").at(i).get<double>();
      for (const auto& pair : entry.at("top5").at(i)) {
        step.top.push_back(pair.at(0).get<TokenId>());
        step.logprobs.push_back(pair.at(1).get<double>());
      }
      golden.steps.push_back(std::move(step));
    }
    cases.push_back(std::move(golden));
  }
  return cases;
}

std::vector<ForcedStep> run_forced(const RunPlan& run, GroupEpoch epoch, const GoldenCase& golden, std::size_t chunk) {
  std::vector<TokenId> tokens = golden.prompt;
  for (std::size_t i = 0; i + 1 < golden.steps.size(); ++i) tokens.push_back(golden.steps[i].best);

  std::vector<ForcedStep> steps(golden.steps.size());
  for (std::size_t first = 0, number = 1; first < tokens.size(); first += chunk, ++number) {
    const std::size_t rows = std::min(chunk, tokens.size() - first);
    plan::ForwardPlan plan;
    plan.epoch = epoch;
    plan.step = {number};
    if (first == 0) {
      plan::AddedSequence added;
      for (std::size_t block = 0; block * kBlockTokens < tokens.size(); ++block) added.blocks.push_back(static_cast<BlockId>(block));
      added.sampling.temperature = 0.0F;
      plan.added.push_back(std::move(added));
    }
    plan.runs = {{{0}, static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(rows), 0}};
    plan.tokens.assign(tokens.begin() + static_cast<std::ptrdiff_t>(first), tokens.begin() + static_cast<std::ptrdiff_t>(first + rows));
    std::vector<std::size_t> sampled;  // steps
    for (std::size_t row = 0; row < rows; ++row) {
      if (first + row + 1 < golden.prompt.size()) continue;
      sampled.push_back(first + row + 1 - golden.prompt.size());
      plan.samples.push_back({static_cast<std::uint32_t>(row), {0}, plan::kDraw, 0, 0});
      for (const TokenId token : golden.steps[sampled.back()].top)
        plan.samples.push_back({static_cast<std::uint32_t>(row), {0}, token, 0, 0});
    }
    const plan::ForwardResult result = run(plan);
    std::size_t next = 0;
    for (const std::size_t step : sampled) {
      steps[step].best = result.tokens.at(next++);
      for (std::size_t i = 0; i < golden.steps[step].top.size(); ++i) steps[step].logprobs.push_back(result.logprobs.at(next++));
    }
  }
  return steps;
}

std::vector<TokenId> eval_tokens() {
  std::ifstream file(TROUPE_TEST_DATA "/eval/eval.txt", std::ios::binary);
  if (!file) throw std::runtime_error("tests/data/eval/eval.txt is missing");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto model = weights::GgufFile::open(default_model_path()).value();
  return text::Tokenizer::make(weights::read_vocabulary(*model).value()).value()->encode(text, false);
}

std::size_t blocks_for(const std::vector<TokenId>& tokens) { return (tokens.size() + kBlockTokens - 1) / kBlockTokens; }

std::vector<float> token_logprobs(const RunPlan& run, GroupEpoch epoch, const std::vector<TokenId>& tokens) {
  constexpr std::size_t kChunk = 256;
  std::vector<float> logprobs;
  for (std::size_t first = 0; first < tokens.size(); first += kChunk) {
    const std::size_t rows = std::min(kChunk, tokens.size() - first);
    plan::ForwardPlan plan;
    plan.epoch = epoch;
    plan.step = {first / kChunk + 1};
    if (first == 0) {
      plan.added.emplace_back();
      for (std::size_t block = 0; block < blocks_for(tokens); ++block) plan.added[0].blocks.push_back(static_cast<BlockId>(block));
    }
    plan.runs = {{{0}, static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(rows), 0}};
    plan.tokens.assign(tokens.begin() + static_cast<std::ptrdiff_t>(first), tokens.begin() + static_cast<std::ptrdiff_t>(first + rows));
    for (std::size_t row = 0; row < rows && first + row + 1 < tokens.size(); ++row)
      plan.samples.push_back({static_cast<std::uint32_t>(row), {0}, tokens[first + row + 1], 0, 0});
    const plan::ForwardResult result = run(plan);
    if (!result.failed_samples.empty() || result.logprobs.size() != plan.samples.size())
      throw std::runtime_error("a row has no log-probability");
    logprobs.insert(logprobs.end(), result.logprobs.begin(), result.logprobs.end());
  }
  if (logprobs.size() + 1 != tokens.size()) throw std::runtime_error("not every token was scored");
  return logprobs;
}

double perplexity(const std::vector<float>& logprobs) {
  return std::exp(-std::accumulate(logprobs.begin(), logprobs.end(), 0.0) / static_cast<double>(logprobs.size()));
}

void Agreement::add(const GoldenCase& golden, const std::vector<ForcedStep>& got) {
  for (std::size_t i = 0; i < golden.steps.size(); ++i) {
    const GoldenStep& wanted = golden.steps[i];
    ++steps;
    if (got[i].best == wanted.best)
      ++agreed;
    else
      largest_disagreement = std::max(largest_disagreement, wanted.margin);
    for (std::size_t k = 0; k < wanted.top.size(); ++k) {
      const double error = std::abs(static_cast<double>(got[i].logprobs[k]) - wanted.logprobs[k]);
      error_sum += error;
      largest_error = std::max(largest_error, error);
      ++values;
    }
  }
}

}  // namespace troupe::test
