// A Llama forward pass in double, straight from the file's tensors and the published formulas: slow, plain, and independent of
// everything the product does to weights, positions and caches. The yardstick of llama_test.cpp.
#pragma once
#include "runtime/model/model.h"

#include <vector>

namespace troupe::test {

/// Logits behind the last of `tokens`, [vocabulary].
std::vector<double> reference_logits(const weights::GgufFile& file, const model::ModelConfig& config, const std::vector<TokenId>& tokens);

}  // namespace troupe::test
