// Where the default model lies, for tests that need a real one (label `model`).
#pragma once
#include <cstdlib>
#include <filesystem>
#include <stdexcept>

namespace troupe::test {

/// TROUPE_TEST_MODEL, else the file that `./dev` downloads. Throws with what to do when it is missing: such a test must not pass.
inline std::filesystem::path default_model_file() {
  const char* chosen = std::getenv("TROUPE_TEST_MODEL");
  const std::filesystem::path path = chosen != nullptr ? chosen : TROUPE_TEST_DATA "/../../.cache/models/SmolLM2-135M-Instruct.Q4_1.gguf";
  if (!std::filesystem::exists(path))
    throw std::runtime_error("the test model " + path.string() + " is missing; `./dev test` fetches it, TROUPE_TEST_MODEL names another");
  return path;
}

}  // namespace troupe::test
