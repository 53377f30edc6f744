// Replays the corpora of the fuzz targets, and small changes of each entry: quick, the same every time, without libFuzzer.
#include "tests/fuzz/fuzz_target.h"
#include "tests/support/random.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#define TARGETS(X) X(config) X(disk_store) X(gguf) X(http) X(jinja) X(json) X(message) X(pack_file) X(stream) X(tokenizer) X(websocket)
#define DECLARE(name) FUZZ_TARGET(name);
TARGETS(DECLARE)

namespace {

struct Row {
  const char* name;
  int (*run)(const std::uint8_t*, std::size_t);
};
#define AS_ROW(name) Row{#name, fuzz_##name},
constexpr std::array kTargets{TARGETS(AS_ROW)};

std::vector<std::string> corpus(const std::string& target) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(TROUPE_FUZZ_CORPUS) + "/" + target))
    paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> out;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    out.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return out;
}

std::string changed(std::string bytes, troupe::test::SmallRandom& random) {
  for (std::size_t n = 1 + random.below(3); n > 0 && !bytes.empty(); --n) {
    const std::size_t at = random.below(bytes.size());
    switch (random.below(4)) {
      case 0: bytes[at] = static_cast<char>(random.below(256)); break;
      case 1: bytes.resize(at); break;
      case 2: bytes.erase(at, 1 + random.below(8)); break;
      default: bytes.insert(at, bytes.substr(random.below(bytes.size()), random.below(16))); break;
    }
  }
  return bytes;
}

void run(const Row& target, const std::string& bytes) {
  // A heap block of exactly this size: reading past it is seen.
  const std::vector<std::uint8_t> data(bytes.begin(), bytes.end());
  target.run(data.data(), data.size());
}

}  // namespace

TEST_CASE("every fuzz target bears its corpus, and changes of it") {
  constexpr int kChanges = 12;
  for (const Row& target : kTargets) {
    CAPTURE(target.name);
    const auto entries = corpus(target.name);
    REQUIRE_FALSE(entries.empty());
    troupe::test::SmallRandom random(4711);
    run(target, "");
    for (const std::string& entry : entries) {
      run(target, entry);
      for (int i = 0; i < kChanges; ++i) run(target, changed(entry, random));
    }
    SUCCEED();
  }
}

TEST_CASE("the corpora are small") {
  std::uintmax_t bytes = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(TROUPE_FUZZ_CORPUS))
    if (entry.is_regular_file()) bytes += entry.file_size();
  CHECK(bytes < 200'000);
}
