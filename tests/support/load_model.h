// A model with its backend, loaded for a test: unpinned, not spinning. Failures throw, with the error's text.
#pragma once
#include "kernels/backend.h"
#include "runtime/model/model.h"

#include <filesystem>
#include <memory>
#include <string>

namespace troupe::test {

/// A loaded model and its backend; several loops may use it, one after the other.
struct LoadedModel {
  std::unique_ptr<kernels::Backend> backend;
  std::unique_ptr<model::Model> model;
};
/// Throws std::runtime_error with the error's text.
LoadedModel load_for_test(const std::filesystem::path& path, kernels::Activations activations = kernels::Activations::kInt8Group32,
                          const std::string& isa = {}, std::size_t threads = 1,
                          kernels::WeightFormat weights = kernels::WeightFormat::kFile);
/// The default model: $TROUPE_TEST_MODEL, else .cache/models below the repository. Throws std::runtime_error that says what to do.
std::filesystem::path default_model_path();

}  // namespace troupe::test
