#include "tests/support/scratch_folder.h"

#include <unistd.h>

#include <string>

namespace troupe::test {
namespace {

struct Folder {
  std::filesystem::path path = std::filesystem::temp_directory_path() / ("troupe_test_" + std::to_string(::getpid()));
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
};

}  // namespace

const std::filesystem::path& scratch_folder() {
  static const Folder folder;
  return folder.path;
}

}  // namespace troupe::test
