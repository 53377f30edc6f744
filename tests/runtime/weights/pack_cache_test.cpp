// Packed weights on disk: what comes back is what was packed, or nothing, whatever happened to the file; and nothing that goes wrong
// with the folder is more than a miss.
#include "runtime/weights/pack_cache.h"
#include "runtime/base/hash.h"
#include "tests/support/random.h"
#include "tests/support/scratch_folder.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace troupe;
using namespace troupe::weights;
namespace fs = std::filesystem;

namespace {

const std::string kLayout = "a layout";
const Hash128 kContent{1, 2};
const std::vector<std::string> kNames = {"first", "second+third", ""};

/// A folder of this test case's own.
fs::path fresh_folder(const std::string& name) {
  const fs::path path = test::scratch_folder() / "pack_cache" / name;
  fs::remove_all(path);
  return path;
}

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
void write(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  fs::permissions(path, fs::perms::owner_read | fs::perms::owner_write);
}

/// Matrices of a tiny "model", packed by the real backend. Data of the sources lies here.
class Model {
 public:
  explicit Model(bool large = true) : backend_(kernels::make_cpu_backend({1, false, 0, "", kernels::Activations::kInt8Group32})) {
    // The middle one takes two pieces if `large`.
    for (const auto& [rows, cols] : {std::pair{10, 32}, std::pair{100, large ? 3000 : 32}, std::pair{48, 64}}) {
      data_.emplace_back(static_cast<std::size_t>(rows) * cols * 4);
      for (std::size_t i = 0; i < data_.back().size(); ++i) data_.back()[i] = static_cast<std::byte>(i * 37 % 61 + data_.size());
      sources_.push_back({kernels::StorageType::kF32, nullptr, static_cast<std::size_t>(rows), static_cast<std::size_t>(cols)});
    }
    PackCache nothing({}, kContent, kLayout);
    expected_ = load(nothing);
  }
  struct Loaded {
    std::vector<std::unique_ptr<kernels::Weight>> weights;
    std::size_t taken = 0;
  };
  /// As a loader does: takes what the cache has and packs the rest.
  Loaded load(PackCache& cache) {
    Loaded loaded;
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      auto weight = cache.take(*backend_, kNames[i], std::span(&sources_[i], 1));
      loaded.taken += weight != nullptr;
      if (!weight) {
        kernels::MatrixSource source = sources_[i];
        source.data = data_[i].data();
        weight = backend_->pack(std::span(&source, 1));
        cache.note_packed(kNames[i], *weight);
      }
      loaded.weights.push_back(std::move(weight));
    }
    return loaded;
  }
  /// Loads with this folder, leaves what belongs there, and checks every packed byte. Returns how many matrices came from the cache.
  std::size_t start(const fs::path& folder, bool keep = true, const Hash128& content = kContent, const std::string& layout = kLayout) {
    PackCache cache(base::CacheFolder(folder), content, layout);
    const Loaded loaded = load(cache);
    for (std::size_t i = 0; i < kNames.size(); ++i) {
      const auto a = expected_.weights[i]->packed(), b = loaded.weights[i]->packed();
      REQUIRE(std::equal(a.begin(), a.end(), b.begin(), b.end()));
    }
    CHECK(cache.complete() == (loaded.taken == kNames.size()));
    if (keep) cache.write_in_background();
    cache.finish();
    return loaded.taken;
  }

 private:
  std::unique_ptr<kernels::Backend> backend_;
  std::vector<std::vector<std::byte>> data_;
  std::vector<kernels::MatrixSource> sources_;
  Loaded expected_;  // packed without a cache
};

fs::path file_in(const fs::path& folder) { return folder / PackCache({}, kContent, kLayout).file_name(); }
std::size_t count_files(const fs::path& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

}  // namespace

TEST_CASE("the second start finds what the first has packed") {
  const fs::path folder = fresh_folder("second") / "deep" / "er";
  Model model;
  CHECK(model.start(folder) == 0);
  CHECK(model.start(folder) == kNames.size());
  CHECK(count_files(folder) == 1);
  struct stat info {};
  REQUIRE(::stat(file_in(folder).c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);
  REQUIRE(::stat(folder.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0700);
  // Another model or another layout is another file.
  CHECK(model.start(folder, true, Hash128{1, 3}) == 0);
  CHECK(model.start(folder, true, kContent, "another layout") == 0);
  CHECK(count_files(folder) == 3);
  CHECK(model.start(folder) == kNames.size());
  // A relative folder that is not there yet.
  const fs::path before = fs::current_path();
  fs::current_path(folder);
  CHECK(model.start("below") == 0);
  CHECK(model.start("below") == kNames.size());
  fs::current_path(before);
  // Deleted at any time.
  fs::remove_all(folder);
  CHECK(model.start(folder) == 0);
  CHECK(model.start(folder) == kNames.size());
}

TEST_CASE("a file that was damaged anywhere gives the same bytes, and is replaced") {
  const fs::path folder = fresh_folder("damage");
  const bool large = GENERATE(false, true);
  Model model(large);
  REQUIRE(model.start(folder) == 0);
  const fs::path path = file_in(folder);
  const std::string good = bytes_of(path);
  test::SmallRandom random(7);
  const auto try_bytes = [&](const std::string& bytes, std::size_t most) {
    write(path, bytes);
    const std::size_t taken = model.start(folder, false);
    CHECK(taken <= most);
  };
  // Every byte of head and table, and some of the data; a flip in the padding between matrices may go unseen.
  const std::size_t data_begin = 4096;
  for (std::size_t at = 0; at < (large ? 0 : 400); ++at) {
    std::string bytes = good;
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << (at % 8)));
    CAPTURE(at);
    try_bytes(bytes, at < 72 ? 0 : kNames.size());
  }
  for (int i = 0; i < 10; ++i) {
    std::string bytes = good;
    const std::size_t at = data_begin + random.below(good.size() - data_begin);
    bytes[at] = static_cast<char>(bytes[at] ^ 0x40);
    CAPTURE(at);
    try_bytes(bytes, kNames.size());
  }
  for (int i = 0; i < (large ? 10 : 40); ++i) {
    CAPTURE(i);
    try_bytes(good.substr(0, i < 8 ? static_cast<std::size_t>(i) * 12 : random.below(good.size())), 0);
  }
  try_bytes(good + "x", 0);
  try_bytes("", 0);
  std::string data = good;
  data[data_begin] = static_cast<char>(data[data_begin] ^ 1);  // of the first matrix
  write(path, data);
  CHECK(model.start(folder) == kNames.size() - 1);  // the others are sound
  CHECK(bytes_of(path) == good);
  CHECK(model.start(folder) == kNames.size());
}

TEST_CASE("tables that are well checksummed and wrong are refused") {
  // Written by the same code with names, shapes and bytes that do not fit the model.
  const fs::path folder = fresh_folder("wrong");
  Model model;
  REQUIRE(model.start(folder) == 0);
  const Hash128 key = [&] {
    Hash128 found;
    const std::string head = bytes_of(file_in(folder)).substr(16, sizeof found);
    std::memcpy(&found, head.data(), sizeof found);
    return found;
  }();
  const auto with = [&](std::vector<PackedMatrix> matrices) {
    const base::Descriptor file(::open(file_in(folder).c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC));
    REQUIRE(write_pack_file(file, key, matrices, false));
    return model.start(folder, false);
  };
  const std::vector<std::byte> bytes(std::size_t{3} << 20);
  CHECK(with({}) == 0);
  CHECK(with({{"stranger", 1, 1, bytes}}) == 0);
  CHECK(with({{"first", 10, 32, {}}}) == 0);
  CHECK(with({{"first", 10, 32, bytes}}) == 0);
  CHECK(with({{"first", 32, 10, bytes}}) == 0);
  CHECK(with({{"first", 10, 32, std::span(bytes).first(100)}}) == 0);
  CHECK(with({{"same", 1, 1, {}}, {"same", 1, 1, {}}}) == 0);
  CHECK(with({{std::string(100'000, 'n'), 1, 1, {}}}) == 0);
}

TEST_CASE("a folder that cannot be used costs nothing but time") {
  Model model;
  CHECK(model.start({}) == 0);
  const fs::path file = fresh_folder("a_file");
  fs::create_directories(file.parent_path());
  write(file, "not a folder");
  CHECK(model.start(file) == 0);
  CHECK(model.start(file / "below") == 0);
  CHECK(bytes_of(file) == "not a folder");
  CHECK(model.start("/proc/no/such/folder") == 0);

  // What others could have written is not read.
  const fs::path folder = fresh_folder("others");
  CHECK(model.start(folder) == 0);
  fs::permissions(file_in(folder), fs::perms::others_write, fs::perm_options::add);
  CHECK(model.start(folder, false) == 0);
  fs::remove(file_in(folder));
  fs::create_directories(file_in(folder));  // a folder of that name
  CHECK(model.start(folder) == 0);
  fs::remove(file_in(folder));
  fs::create_symlink("/etc/passwd", file_in(folder));
  CHECK(model.start(folder) == 0);  // replaces the link, not what it points to
  CHECK(model.start(folder) == kNames.size());
  CHECK(count_files(folder) == 1);
}

TEST_CASE("a run that ends at once leaves its small file") {
  const fs::path folder = fresh_folder("short");
  Model model;
  {
    auto cache = std::make_unique<PackCache>(base::CacheFolder(folder), kContent, kLayout);
    const auto loaded = model.load(*cache);
    cache->write_in_background();
    cache.reset();  // before the weights, as in an engine
  }
  CHECK(model.start(folder) == kNames.size());
}

TEST_CASE("two writers at once leave one good file") {
  const fs::path folder = fresh_folder("two");
  Model a, b;
  PackCache first(base::CacheFolder(folder), kContent, kLayout), second(base::CacheFolder(folder), kContent, kLayout);
  const auto loaded_a = a.load(first), loaded_b = b.load(second);
  first.write_in_background();
  second.write_in_background();
  first.finish();
  second.finish();
  CHECK(count_files(folder) == 1);
  CHECK(a.start(folder) == kNames.size());
}

TEST_CASE("a folder keeps the files that were used last") {
  const fs::path path = fresh_folder("trim");
  const base::CacheFolder folder(path);
  const auto name = [](std::uint64_t i) { return base::hex(Hash128{i, i}) + ".kind"; };
  const auto put = [&](const std::string& file_name, std::size_t bytes, int age_s) {
    REQUIRE(
        folder.replace(file_name, [&](const base::Descriptor& file) { return base::write_at(file, 0, std::vector<std::byte>(bytes)); }));
    fs::last_write_time(path / file_name, fs::file_time_type::clock::now() - std::chrono::seconds(age_s));
  };
  for (std::uint64_t i = 0; i < 5; ++i) put(name(i), 100, 1000 - static_cast<int>(i));
  // Of others, who may keep their files here.
  const std::vector<std::string> strangers = {"thesis.kind", "thesis.tmp", base::hex({1, 1}) + ".other", "x" + name(1), name(1) + ".tmp"};
  for (const std::string& stranger : strangers) put(stranger, 1000, 100'000);
  folder.open(name(0));  // the oldest is used
  folder.trim(".kind", 350, 10);
  const auto there = [&](const std::string& file_name) { return fs::exists(path / file_name); };
  CHECK((there(name(0)) && there(name(4)) && there(name(3))));
  CHECK((!there(name(1)) && !there(name(2))));
  folder.trim(".kind", 1000, 1);
  CHECK((there(name(0)) && !there(name(4))));
  folder.trim(".kind", 1, 0);  // the last one always stays
  CHECK(there(name(0)));
  for (const std::string& stranger : strangers) CHECK(there(stranger));
  base::CacheFolder(path / "absent").trim(".kind", 1, 1);
}

TEST_CASE("what a dead writer has left is deleted, what a live one writes is not") {
  const fs::path path = fresh_folder("killed");
  const base::CacheFolder folder(path);
  // A child is killed in the middle of its file.
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto hang = [&](const base::Descriptor& file) {
      const char go = base::write_at(file, 0, std::vector<std::byte>(5000)) ? 1 : 0;
      if (::write(ready[1], &go, 1) == 1) ::pause();
      return false;
    };
    static_cast<void>(folder.replace("file", hang));
    ::_exit(1);
  }
  char go = 0;
  REQUIRE(::read(ready[0], &go, 1) == 1);
  REQUIRE(go == 1);
  folder.trim(".kind", 1, 1);
  CHECK(count_files(path) == 1);  // it lives
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  CHECK(count_files(path) == 1);
  REQUIRE(folder.replace("file", [&](const base::Descriptor& file) {
    folder.trim(".kind", 1, 1);
    CHECK(count_files(path) == 1);  // the dead one's is gone, this one stays
    return base::write_at(file, 0, std::vector<std::byte>(10));
  }));
  CHECK(fs::file_size(path / "file") == 10);
  CHECK(count_files(path) == 1);
  for (const int end : ready) ::close(end);
}

TEST_CASE("a killed writer's file goes before a start looks for room, and a failed write leaves nothing") {
  const fs::path folder = fresh_folder("room");
  Model model;
  fs::create_directories(folder);
  write(folder / (base::hex(kContent) + ".packed.1-2.troupe-unfinished"), "of a writer that died");
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto old = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{100'000, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  const std::size_t taken = model.start(folder);  // as on a full disk: the write fails in the middle
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  std::signal(SIGXFSZ, old);
  CHECK(taken == 0);
  CHECK(count_files(folder) == 0);
  CHECK(model.start(folder) == 0);
  CHECK(model.start(folder) == kNames.size());
}

TEST_CASE("records are whole or absent") {
  const fs::path path = fresh_folder("records");
  const base::CacheFolder folder(path);
  const std::vector<std::byte> bytes(100, std::byte{7});
  CHECK_FALSE(folder.record("note"));
  REQUIRE(folder.keep_record("note", bytes));
  CHECK(folder.record("note") == bytes);
  const std::string good = bytes_of(path / "note");
  fs::rename(path / "note", path / "other");
  CHECK_FALSE(folder.record("other"));
  for (std::size_t at = 0; at < good.size(); at += at < 24 ? 1 : 11) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 1);
    write(path / "note", bad);
    CHECK_FALSE(folder.record("note"));
    write(path / "note", good.substr(0, at));
    CHECK_FALSE(folder.record("note"));
  }
  write(path / "note", good + std::string(1 << 20, 'x'));
  CHECK_FALSE(folder.record("note"));
  CHECK_FALSE(base::CacheFolder().keep_record("note", bytes));
}
