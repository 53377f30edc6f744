// The hash of a model file is that of its bytes, also where it was noted: a note counts for the unchanged file only.
#include "runtime/weights/content_hash.h"
#include "tests/support/scratch_folder.h"

#include <catch2/catch.hpp>

#include <fcntl.h>
#include <fstream>
#include <sys/stat.h>

using namespace troupe;
using namespace troupe::weights;
namespace fs = std::filesystem;

namespace {

fs::path fresh_folder() {
  const fs::path path = test::scratch_folder() / "content_hash";
  fs::remove_all(path);
  fs::create_directories(path);
  return path;
}
void write(const fs::path& path, const std::string& bytes) { std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes; }
std::unique_ptr<const DiskFile> open(const fs::path& path) { return std::move(DiskFile::open(path).value()); }
Hash128 hash(const fs::path& path) { return hash_content(*open(path)).value(); }

/// Sets an identity as old as a note asks for, in memory: the time of change is the kernel's.
KnownContent known(const DiskFile& file, Hash128 hash) { return {file.identity(), hash}; }

}  // namespace

TEST_CASE("every byte and the length count, across pieces") {
  const fs::path file = fresh_folder() / "model";
  const std::size_t sizes[] = {1, 4U << 20, (8U << 20) + 1};
  std::vector<Hash128> seen;
  for (const std::size_t size : sizes) {
    std::string bytes(size, 'a');
    write(file, bytes);
    seen.push_back(hash(file));
    CHECK(hash(file) == seen.back());
    for (const std::size_t at : {std::size_t{0}, size / 2, size - 1}) {
      bytes[at] = static_cast<char>(bytes[at] + 1);
      write(file, bytes);
      seen.push_back(hash(file));
      if (size == 1) break;
    }
  }
  for (std::size_t i = 0; i < seen.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) CHECK(seen[i] != seen[j]);
}

TEST_CASE("a file that is cut while it is read is an error") {
  const fs::path file = fresh_folder() / "model";
  write(file, std::string(10000, 'a'));
  const auto opened = open(file);
  fs::resize_file(file, 100);
  CHECK_FALSE(opened->unchanged());
  const auto hashed = hash_content(*opened);
  REQUIRE_FALSE(hashed);
  CHECK(hashed.error().client_text.find(file.string()) != std::string::npos);
}

TEST_CASE("a file that was written to since it was opened has no content to go by") {
  const fs::path file = fresh_folder() / "model";
  write(file, std::string(10000, 'a'));
  const auto opened = open(file);
  {
    std::fstream again(file, std::ios::in | std::ios::out | std::ios::binary);
    again << "b";
  }
  // Two writes within a tick of the file system's clock look like one.
  fs::last_write_time(file, fs::last_write_time(file) + std::chrono::seconds(1));
  const auto content = content_of(*opened, std::nullopt, {});
  REQUIRE_FALSE(content);
  CHECK(content.error().client_text.find(file.string()) != std::string::npos);
}

TEST_CASE("what is known counts for the unchanged file only") {
  const fs::path folder = fresh_folder(), file = folder / "model";
  write(file, "bytes of a model");
  const Hash128 wrong{3, 4};
  auto opened = open(file);
  const KnownContent claim = known(*opened, wrong);
  CHECK(content_of(*opened, claim, {}).value().hash == wrong);  // believed, not computed
  CHECK(content_of(*opened, std::nullopt, {}).value().hash == hash(file));
  write(file, "bytes of a mOdel");  // same length
  opened = open(file);
  CHECK(content_of(*opened, claim, {}).value().hash == hash(file));
}

TEST_CASE("a note in the folder is used, but none is made of a file that has just changed") {
  const fs::path folder = fresh_folder(), file = folder / "model";
  const base::CacheFolder cache(folder / "cache");
  write(file, "bytes of a model");
  const auto notes = [&] {
    std::error_code none;
    std::size_t count = 0;
    for (fs::directory_iterator it(cache.path(), none), end; !none && it != end; ++it) ++count;
    return count;
  };
  CHECK(content_of(*open(file), std::nullopt, cache).value().hash == hash(file));
  CHECK(notes() == 0);
  // A file that has rested: this program itself, say.
  const auto old = open("/proc/self/exe");
  const bool rested =
      std::chrono::system_clock::now().time_since_epoch() - std::chrono::nanoseconds(old->identity().changed_ns) > std::chrono::seconds(3);
  if (!rested) return;  // built this very moment
  const Hash128 real = content_of(*old, std::nullopt, cache).value().hash;
  REQUIRE(notes() == 1);
  const auto note = fs::directory_iterator(cache.path())->path().filename().string();
  CHECK(content_of(*old, std::nullopt, cache).value().hash == real);
  // A forged note of the same identity is believed: so it is the note that was read.
  const KnownContent forged = known(*old, {5, 6});
  REQUIRE(cache.keep_record(note, std::as_bytes(std::span(&forged, 1))));
  CHECK(content_of(*old, std::nullopt, cache).value().hash == forged.hash);
  KnownContent other = forged;
  --other.file.changed_ns;
  REQUIRE(cache.keep_record(note, std::as_bytes(std::span(&other, 1))));
  CHECK(content_of(*old, std::nullopt, cache).value().hash == real);  // and replaced
  CHECK(content_of(*old, std::nullopt, cache).value().hash == real);
}
