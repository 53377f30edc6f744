#include "tests/support/load_model.h"

#include "runtime/weights/gguf_file.h"

#include <cstdlib>
#include <stdexcept>

namespace troupe::test {

namespace {

LoadedModel load_part(const std::filesystem::path& path, kernels::CpuOptions options, const model::LoadPart& part) {
  auto file = weights::GgufFile::open(path);
  if (!file) throw std::runtime_error(file.error().client_text);
  LoadedModel loaded;
  options.pin = false;
  options.spin_us = 0;
  loaded.backend = kernels::make_cpu_backend(options);
  auto model = model::load_model(*file, *loaded.backend, {}, nullptr, part);
  if (!model) throw std::runtime_error(model.error().client_text);
  loaded.model = std::move(*model);
  return loaded;
}

}  // namespace

LoadedModel load_for_test(const std::filesystem::path& path, kernels::Activations activations, const std::string& isa, std::size_t threads,
                          kernels::WeightFormat weights) {
  kernels::CpuOptions options;
  options.threads = threads;
  options.isa = isa;
  options.activations = activations;
  options.weights = weights;
  return load_part(path, options, {});
}

LoadedModel load_group_for_test(const std::filesystem::path& path, const GroupLoad& load) {
  kernels::CpuOptions options;
  options.threads = 1;
  options.isa = load.isa;
  options.activations = load.activations;
  LoadedModel group;
  for (std::uint16_t rank = 0; rank < load.shape.ranks(); ++rank) {
    LoadedModel part = load_part(path, options, {{load.shape, rank}, load.slice_head});
    if (rank == 0)
      group = std::move(part);
    else
      group.others.push_back(std::move(part));
  }
  group.shape = load.shape;
  group.codec = load.codec;
  return group;
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
