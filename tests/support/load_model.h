// A model with its backend, loaded for a test: unpinned, not spinning. Failures throw, with the error's text.
#pragma once
#include "kernels/backend.h"
#include "runtime/model/model.h"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace troupe::test {

/// A loaded model and its backend; several loops may use it, one after the other. With more ranks: that of rank 0.
struct LoadedModel {
  std::unique_ptr<kernels::Backend> backend;
  std::unique_ptr<model::Model> model;
  base::ParallelShape shape;
  kernels::WireFormat codec = kernels::WireFormat::kFp32;
  std::vector<LoadedModel> others;  // of ranks 1, 2, ...
};
/// Throws std::runtime_error with the error's text.
LoadedModel load_for_test(const std::filesystem::path& path, kernels::Activations activations = kernels::Activations::kInt8Group32,
                          const std::string& isa = {}, std::size_t threads = 1,
                          kernels::WeightFormat weights = kernels::WeightFormat::kFile);
struct GroupLoad {
  base::ParallelShape shape;
  kernels::WireFormat codec = kernels::WireFormat::kFp32;
  kernels::Activations activations = kernels::Activations::kInt8Group32;
  bool slice_head = true;
  std::string isa = {};
};
/// The slices of all ranks, each with a backend of one thread; for a ShardGroup.
LoadedModel load_group_for_test(const std::filesystem::path& path, const GroupLoad& load);
/// The default model: $TROUPE_TEST_MODEL, else .cache/models below the repository. Throws std::runtime_error that says what to do.
std::filesystem::path default_model_path();

}  // namespace troupe::test
