#include "tests/support/load_model.h"

#include "runtime/weights/gguf_file.h"

#include <cstdlib>
#include <stdexcept>

namespace troupe::test {

LoadedModel load_for_test(const std::filesystem::path& path, kernels::Activations activations, const std::string& isa, std::size_t threads,
                          kernels::WeightFormat weights) {
  auto file = weights::GgufFile::open(path);
  if (!file) throw std::runtime_error(file.error().client_text);
  LoadedModel loaded;
  kernels::CpuOptions options;
  options.threads = threads;
  options.pin = false;
  options.spin_us = 0;
  options.isa = isa;
  options.activations = activations;
  options.weights = weights;
  loaded.backend = kernels::make_cpu_backend(options);
  auto model = model::load_model(*file, *loaded.backend, {});
  if (!model) throw std::runtime_error(model.error().client_text);
  loaded.model = std::move(*model);
  return loaded;
}

std::filesystem::path default_model_path() {
  const char* given = std::getenv("TROUPE_TEST_MODEL");
  const std::filesystem::path path =
      given != nullptr ? given
                       : std::filesystem::path(TROUPE_TEST_DATA) / ".." / ".." / ".cache" / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf";
  if (!std::filesystem::exists(path))
    throw std::runtime_error("no model at " + path.lexically_normal().string() +
                             ": run ./dev test, which fetches it, or set TROUPE_TEST_MODEL");
  return path;
}

}  // namespace troupe::test
