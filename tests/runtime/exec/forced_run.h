// Teacher-forced runs: the model sees given ids whatever it would have drawn, and says at each step what it would have drawn and
// how likely it finds given candidates. Used by the golden and perplexity tests; what runs the plans may be one executor or many.
#pragma once
#include "runtime/exec/executor.h"

#include <functional>
#include <vector>

namespace troupe::test {

using RunPlan = std::function<plan::ForwardResult(const plan::ForwardPlan& plan)>;
RunPlan run_on(exec::Executor& executor);

/// A case of tests/data/golden/smollm2_q4_1_greedy.json.
struct GoldenStep {
  TokenId best = 0;
  double margin = 0;  // log-probability of the best minus that of the second
  std::vector<TokenId> top;
  std::vector<double> logprobs;  // one an entry of top
};
struct GoldenCase {
  std::string id;
  std::vector<TokenId> prompt;
  std::vector<GoldenStep> steps;
};
/// Throws std::runtime_error if the file is not there or not as expected.
std::vector<GoldenCase> read_golden();

struct ForcedStep {
  TokenId best = 0;
  std::vector<float> logprobs;  // of GoldenStep::top
};
/// Runs one case as the first of an epoch, which has been entered; `chunk` rows a plan.
std::vector<ForcedStep> run_forced(const RunPlan& run, GroupEpoch epoch, const GoldenCase& golden, std::size_t chunk);

/// tests/data/eval/eval.txt as ids of the default model.
std::vector<TokenId> eval_tokens();
/// Log-probabilities of all tokens but the first: one sequence, the first of an epoch that has been entered. It takes blocks 0, 1, ...
/// Throws std::runtime_error where the engine gives none.
std::vector<float> token_logprobs(const RunPlan& run, GroupEpoch epoch, const std::vector<TokenId>& tokens);
double perplexity(const std::vector<float>& logprobs);
std::size_t blocks_for(const std::vector<TokenId>& tokens);

/// How near a run is to the reference.
struct Agreement {
  std::size_t steps = 0, agreed = 0, values = 0;
  double error_sum = 0, largest_error = 0;
  double largest_disagreement = 0;  // margin of the clearest step that came out otherwise
  void add(const GoldenCase& golden, const std::vector<ForcedStep>& got);
  double top1() const { return static_cast<double>(agreed) / static_cast<double>(steps); }
  double mean_error() const { return error_sum / static_cast<double>(values); }
};

}  // namespace troupe::test
