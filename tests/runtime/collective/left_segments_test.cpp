// Names in /dev/shm as killed ranks leave them, and as living ones have them.
#include "runtime/base/descriptor.h"
#include "runtime/collective/left_segments.h"

#include <sys/mman.h>

#include <catch2/catch.hpp>
#include <fcntl.h>
#include <filesystem>
#include <string>
#include <unistd.h>

using namespace troupe;

namespace {
constexpr std::size_t kBytes = 4096;

struct Named {
  explicit Named(const std::string& prefix)
      : path("/dev/shm/" + prefix + "troupe" + std::to_string(::getpid())),
        file(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600)) {
    REQUIRE(file);
    REQUIRE(::ftruncate(file.get(), kBytes) == 0);
  }
  ~Named() { ::unlink(path.c_str()); }
  bool there() const { return std::filesystem::exists(path); }
  const std::string path;
  base::Descriptor file;
};
}  // namespace

TEST_CASE("a segment that nobody uses is removed, one that somebody has open or mapped is not") {
  Named segment("ucx_shm_posix_"), stranger("");
  stranger.file.reset();
  collective::remove_left_segments();
  CHECK(segment.there());
  void* mapped = ::mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, segment.file.get(), 0);
  REQUIRE(mapped != MAP_FAILED);
  segment.file.reset();
  collective::remove_left_segments();
  CHECK(segment.there());
  ::munmap(mapped, kBytes);
  collective::remove_left_segments();
  CHECK_FALSE(segment.there());
  CHECK(stranger.there());
}
