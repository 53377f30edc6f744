// The disk store and all that can happen to a file: damage anywhere, cuts, full and read-only disks, other models, other processes,
// strangers' files. A miss or an error, never a wrong byte.
#include "runtime/exec/disk_store.h"

#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "tests/runtime/exec/store_blocks.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <functional>

namespace troupe::exec {
namespace {

using namespace troupe::test;
namespace fs = std::filesystem;

std::string content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
void write_content(const fs::path& path, const std::string& content) { std::ofstream(path, std::ios::binary | std::ios::trunc) << content; }
fs::path file_of(const StoreSpec& spec) { return spec.folder / DiskStore::file_name(spec); }
std::size_t count_files(const fs::path& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}
mode_t mode_of(const fs::path& path) {
  struct stat info {};
  REQUIRE(::stat(path.c_str(), &info) == 0);
  return info.st_mode & 0777;
}
/// Places 0 ... n - 1 hold blocks 100, 101 ...
void fill(TierStore& store, BlockId n) {
  std::vector<BlockId> places;
  std::vector<std::uint64_t> numbers;
  for (BlockId i = 0; i < n; ++i) {
    places.push_back(i);
    numbers.push_back(100 + i);
  }
  REQUIRE(put_blocks(store, places, numbers) == n);
}
std::size_t hits(TierStore& store, BlockId n) {
  std::size_t found = 0;
  for (BlockId i = 0; i < n; ++i) found += get_block(store, i, 100 + i) ? 1 : 0;
  return found;
}
bool works(TierStore& store) { return put_blocks(store, {7}, {1}) == 1 && get_block(store, 7, 1); }

/// As another process would; the child's verdict.
bool in_child(const std::function<bool()>& what) {
  const pid_t child = ::fork();
  if (child == 0) {
    bool good = false;
    try {
      good = what();
    } catch (...) {
    }
    ::_exit(good ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST_CASE("a restart finds all blocks in one private file") {
  const auto spec = store_spec(fresh_store_folder("restart") / "deep" / "er", 5000, 600);
  auto store = open_store(spec);
  fill(*store, 300);
  store.reset();
  store = open_store(spec);
  CHECK(store->inventory().size() == 300);
  CHECK(hits(*store, 300) == 300);
  CHECK(count_files(spec.folder) == 1);
  CHECK(mode_of(file_of(spec)) == 0600);
  CHECK(mode_of(spec.folder) == 0700);
  // Written over again and again it stays within its bound.
  for (int round = 0; round < 3; ++round)
    for (BlockId i = 0; i < 600; i += 60) put_blocks(*store, {i, i + 1, i + 59}, {i + 1U, i + 2U, i + 3U});
  CHECK(fs::file_size(file_of(spec)) <= DiskLayout(5000, spec.domain).file_bytes(600));
}

TEST_CASE("a stamp of last use that is damaged costs order only, and not for ever") {
  const auto spec = store_spec(fresh_store_folder("stamps"));
  fill(*open_store(spec), 4);
  const DiskLayout layout(spec.block_bytes, spec.domain);
  {
    std::fstream file(file_of(spec), std::ios::binary | std::ios::in | std::ios::out);
    for (const auto& [block, filler] : {std::pair<BlockId, char>{1, '\xff'}, {2, '\0'}}) {
      file.seekp(static_cast<std::streamoff>(layout.record_at(block) + offsetof(DiskRecord, used)));
      file.write(std::string(8, filler).data(), 8);
    }
  }
  const auto store = open_store(spec);
  const auto order = [&store] {
    std::vector<BlockId> blocks;
    for (const StoredBlock& block : store->inventory()) blocks.push_back(block.block);
    return blocks;
  };
  CHECK(order() == std::vector<BlockId>{2, 0, 3, 1});
  CHECK(get_block(*store, 0, 100));
  CHECK(order() == std::vector<BlockId>{2, 3, 1, 0});
}

TEST_CASE("a bound that shrinks and grows loses what lies beyond it, and nothing comes back without its bytes") {
  auto spec = store_spec(fresh_store_folder("bounds"), 5000, 600);
  fill(*open_store(spec), 300);
  for (const std::uint32_t blocks : {280U, 100U, 600U}) {
    spec.blocks = blocks;
    const auto store = open_store(spec);
    CHECK(store->inventory().size() == std::min(blocks, blocks == 280U ? 280U : 100U));
    CHECK(fs::file_size(file_of(spec)) <= DiskLayout(5000, spec.domain).file_bytes(blocks));
    if (blocks == 600) put_blocks(*store, {599}, {1});
  }
  const auto store = open_store(spec);
  CHECK(store->inventory().size() == 101);
  CHECK(hits(*store, 100) == 100);
}

TEST_CASE("another model, numerics, layout, rank or size of block is another file") {
  const auto folder = fresh_store_folder("domains");
  const StoreOwner owner{{1, 2}, {3, 4}, "a layout"};
  std::vector<StoreSpec> specs(1, store_spec(folder));
  for (const StoreOwner& other :
       {StoreOwner{{1, 3}, {3, 4}, "a layout"}, StoreOwner{{1, 2}, {3, 5}, "a layout"}, StoreOwner{{1, 2}, {3, 4}, "b layout"},
        StoreOwner{{1, 2}, {3, 4}, "a layout", 1, 2}, StoreOwner{{1, 2}, {3, 4}, "a layout", 0, 2}}) {
    specs.push_back(specs.front());
    specs.back().domain = store_domain(other);
  }
  specs.push_back(specs.front());
  specs.back().block_bytes = 5001;
  CHECK(store_domain(owner) == specs.front().domain);
  for (const StoreSpec& spec : specs) {
    const auto store = open_store(spec);
    CHECK(hits(*store, 4) == 0);
    fill(*store, 4);
  }
  CHECK(count_files(folder) == specs.size());
  for (const StoreSpec& spec : specs) CHECK(hits(*open_store(spec), 4) == 4);
  // One under the name of another, as a careless copy leaves it.
  fs::copy_file(file_of(specs[0]), file_of(specs[1]), fs::copy_options::overwrite_existing);
  auto store = open_store(specs[1]);
  CHECK(store->inventory().empty());
  CHECK(works(*store));
}

TEST_CASE("a bit that flips anywhere costs blocks, never a byte") {
  const auto spec = store_spec(fresh_store_folder("flips"), 600, 258);
  const DiskLayout layout(spec.block_bytes, spec.domain);
  {
    const auto store = open_store(spec);
    fill(*store, 8);
    put_blocks(*store, {257}, {357});
  }
  const std::string good = content_of(file_of(spec));
  const auto with_flip = [&](std::uint64_t at, int bit) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ (1 << bit));
    write_content(file_of(spec), bad);
    CAPTURE(at);
    const auto store = open_store(spec);
    const std::size_t found = hits(*store, 8) + (get_block(*store, 257, 357) ? 1 : 0);
    CHECK(store->inventory().size() == found);  // what was found to be damaged is forgotten
    return found;
  };
  SmallRandom random(5);
  const auto bit = [&random] { return static_cast<int>(random.below(8)); };
  for (std::uint64_t at = 0; at < sizeof(DiskHead); at += 4) CHECK(with_flip(at + random.below(4), bit()) == 0);
  CHECK(with_flip(sizeof(DiskHead), 0) == 9);  // nothing is there
  for (const BlockId block : {0U, 7U, 257U})
    for (std::uint64_t at = 0; at < sizeof(DiskRecord); at += 1 + random.below(10))
      CHECK(with_flip(layout.record_at(block) + at, bit()) == (at < offsetof(DiskRecord, used) ? 8 : 9));
  for (const BlockId empty : {8U, 255U, 256U}) CHECK(with_flip(layout.record_at(empty) + random.below(64), bit()) == 9);
  for (const BlockId block : {0U, 3U, 7U, 257U})
    for (std::uint64_t at : {std::uint64_t{0}, spec.block_bytes / 2, spec.block_bytes - 1, random.below(spec.block_bytes)})
      CHECK(with_flip(layout.block_at(block) + at, bit()) == 8);
  CHECK(with_flip(layout.block_at(2) + spec.block_bytes, 1) == 9);  // between two blocks
  for (int i = 0; i < 20; ++i) with_flip(random.below(good.size()), bit());
  // Records and bytes that belong to other places: sound, but not here.
  std::string swapped = good;
  std::swap_ranges(&swapped[layout.record_at(1)], &swapped[layout.record_at(1)] + sizeof(DiskRecord), &swapped[layout.record_at(2)]);
  write_content(file_of(spec), swapped);
  CHECK(hits(*open_store(spec), 8) == 6);
  swapped = good;
  std::swap_ranges(&swapped[layout.block_at(1)], &swapped[layout.block_at(1)] + spec.block_bytes, &swapped[layout.block_at(2)]);
  write_content(file_of(spec), swapped);
  CHECK(hits(*open_store(spec), 8) == 6);
}

TEST_CASE("damage while the store is open is found, too, and costs only the blocks it hit") {
  const auto spec = store_spec(fresh_store_folder("open_damage"));
  const DiskLayout layout(spec.block_bytes, spec.domain);
  const auto store = open_store(spec);
  fill(*store, 16);
  {
    std::fstream file(file_of(spec), std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(layout.block_at(5) + 17));
    file.put('!');
  }
  Status status = ok_status();
  CHECK_FALSE(get_block(*store, 5, 105, &status));
  REQUIRE_FALSE(status);
  CHECK(status.error().error_class == ErrorClass::kCorrupted);
  CHECK(hits(*store, 16) == 15);
  // Cut in the middle: a run that is read at once gives what is left.
  fs::resize_file(file_of(spec), layout.block_at(10) + 100);
  std::vector<std::byte> arena(16 * spec.block_bytes);
  std::vector<BlockRead> reads;
  for (BlockId i = 0; i < 16; ++i) reads.push_back({i, block_key(100 + i), arena.data() + i * spec.block_bytes});
  CHECK_FALSE(store->get(reads));
  CHECK(std::count_if(reads.begin(), reads.end(), [](const auto& read) { return read.done; }) == 9);
  CHECK(works(*store));
  // Deleted: this store goes on, the next one begins anew.
  fs::remove_all(spec.folder);
  CHECK(hits(*store, 10) == 8);
  CHECK(works(*store));
}

TEST_CASE("a file that was cut, or is something else, is a miss and is used again") {
  const auto spec = store_spec(fresh_store_folder("cuts"));
  const DiskLayout layout(spec.block_bytes, spec.domain);
  {
    const auto store = open_store(spec);
    fill(*store, 16);
  }
  const std::string good = content_of(file_of(spec));
  SmallRandom random(6);
  std::vector<std::string> contents = {good.substr(0, 1), good + "rest"};
  for (const char filler : {'\0', '\xff', 'x'}) contents.emplace_back(100'000, filler);
  contents.emplace_back();
  for (std::size_t at : {47U, 48U, 4095U, 4096U, 4097U, 4160U, 20480U, 20481U}) contents.push_back(good.substr(0, at));
  for (int i = 0; i < 30; ++i) contents.push_back(good.substr(0, random.below(good.size())));
  for (const std::string& content : contents) {
    CAPTURE(content.size());
    write_content(file_of(spec), content);
    const auto store = open_store(spec);
    const std::size_t found = hits(*store, 16);
    CHECK(found <= content.size() / spec.block_bytes);
    CHECK((found == 16) == (content.size() >= layout.block_at(15) + spec.block_bytes && content[0] == good[0]));
    CHECK(works(*store));
  }
  // Others could have written it.
  write_content(file_of(spec), good);
  fs::permissions(file_of(spec), fs::perms::others_write, fs::perm_options::add);
  CHECK(open_store(spec)->inventory().empty());
  CHECK(mode_of(file_of(spec)) == 0600);
  // Others can read it.
  write_content(file_of(spec), good);
  fs::permissions(file_of(spec), fs::perms::group_read | fs::perms::others_read, fs::perm_options::add);
  CHECK(open_store(spec)->inventory().size() == 16);
  CHECK(mode_of(file_of(spec)) == 0600);
  // No file at all.
  const auto refused = [&spec] {
    const auto store = DiskStore::open(spec);
    return !store && !store.error().client_text.empty();
  };
  fs::remove(file_of(spec));
  fs::create_symlink(spec.folder / "elsewhere", file_of(spec));
  CHECK(refused());
  fs::remove(file_of(spec));
  fs::create_directory(file_of(spec));
  CHECK(refused());
  fs::remove(file_of(spec));
  REQUIRE(::mkfifo(file_of(spec).c_str(), 0600) == 0);
  CHECK(refused());
  CHECK_FALSE(fs::exists(spec.folder / "elsewhere"));
}

TEST_CASE("a folder that cannot be used is an error that names it") {
  const auto folder = fresh_store_folder("unusable");
  fs::create_directories(folder);
  write_content(folder / "file", "not a folder");
  for (const auto& [path, named] : {std::pair<fs::path, std::string>{folder / "file", "unusable/file"},
                                    {folder / "file" / "below", "unusable/file"},
                                    {"/proc/no/such/folder", "/proc/no"},
                                    {"", "folder"}}) {
    const auto store = DiskStore::open(store_spec(path));
    REQUIRE_FALSE(store);
    CHECK(store.error().client_text.find(named) != std::string::npos);
  }
  CHECK(content_of(folder / "file") == "not a folder");
}

TEST_CASE("a file that may only be read gives hits and takes nothing") {
  const auto spec = store_spec(fresh_store_folder("may_only_read"));
  fill(*open_store(spec), 4);
  constexpr uid_t kNobody = 65534;
  const bool root = ::geteuid() == 0;  // for whom permissions do not count
  const auto set_modes = [&](mode_t folder, mode_t file) {
    if (root && ::chown(spec.folder.c_str(), kNobody, kNobody) != 0) return false;
    if (root && ::chown(file_of(spec).c_str(), kNobody, kNobody) != 0) return false;
    return ::chmod(spec.folder.c_str(), folder) == 0 && ::chmod(file_of(spec).c_str(), file) == 0;
  };
  REQUIRE(set_modes(0500, 0400));
  CHECK(in_child([&] {
    auto here = spec;
    here.folder = ".";  // nobody has no way through the folders above
    if (::chdir(spec.folder.c_str()) != 0 || (root && (::setgid(kNobody) != 0 || ::setuid(kNobody) != 0))) return false;
    const auto store = DiskStore::open(here);
    auto other = here;
    other.domain = {7, 7};
    const auto none = DiskStore::open(other);
    return store.ok() && hits(**store, 4) == 4 && put_blocks(**store, {1}, {9}) == 0 && hits(**store, 4) == 4 && !none &&
           none.error().client_text.find("ermission") != std::string::npos;
  }));
  REQUIRE(set_modes(0700, 0600));
}

TEST_CASE("two processes on one folder do not harm each other") {
  const auto spec = store_spec(fresh_store_folder("two"));
  auto store = open_store(spec);
  fill(*store, 4);
  CHECK(in_child([&] {
    const auto second = DiskStore::open(spec);
    return !second && second.error().error_class == ErrorClass::kStorageFailed;
  }));
  // Another model's store is no hindrance, and however little others may keep, a file in use stays.
  auto other = spec;
  other.domain = {8, 8};
  other.others_bytes = 0;
  CHECK(in_child([&] {
    const auto second = DiskStore::open(other);
    return second.ok() && put_blocks(**second, {1}, {5}) == 1;
  }));
  CHECK(hits(*store, 4) == 4);
  CHECK(count_files(spec.folder) == 2);
  store.reset();
  CHECK(in_child([&] {  // the lock went with its owner
    const auto second = DiskStore::open(spec);
    return second.ok() && (*second)->inventory().size() == 4;
  }));
}

TEST_CASE("stores of other models keep to their bound, strangers' files stay") {
  auto spec = store_spec(fresh_store_folder("others"));
  std::vector<fs::path> files;
  for (std::uint64_t i = 1; i <= 4; ++i) {
    spec.domain = {i, i};
    fill(*open_store(spec), 16);
    files.push_back(file_of(spec));
    fs::last_write_time(files.back(), fs::file_time_type::clock::now() - std::chrono::hours(10 - i));
  }
  const std::vector<std::string> strangers = {"thesis.blocks", "x" + files[0].filename().string(), base::hex({1, 1}) + ".packed"};
  for (const std::string& stranger : strangers) write_content(spec.folder / stranger, std::string(1 << 20, 's'));
  spec.domain = {9, 9};
  spec.others_bytes = 2 * fs::file_size(files[0]);
  fill(*open_store(spec), 16);
  CHECK_FALSE((fs::exists(files[0]) || fs::exists(files[1])));
  CHECK((fs::exists(files[2]) && fs::exists(files[3])));
  for (const std::string& stranger : strangers) CHECK(fs::file_size(spec.folder / stranger) == 1 << 20);
}

TEST_CASE("ranks of one replica leave each other's files, however large they are") {
  auto spec = store_spec(fresh_store_folder("ranks"));
  spec.others_bytes = 0;
  const auto both = [&](auto use) {  // they open before one of them writes, since they meet first
    auto first = spec, second = spec;
    first.domain = {1, 1};
    second.domain = {2, 2};
    const auto a = open_store(first), b = open_store(second);
    use(*a);
    use(*b);
  };
  both([](TierStore& store) { fill(store, 4); });
  both([](TierStore& store) {
    CHECK(hits(store, 4) == 4);
    CHECK(works(store));
  });
  spec.domain = {3, 3};
  fill(*open_store(spec), 1);  // another model's, once they are not in use
  CHECK(count_files(spec.folder) == 1);
}

TEST_CASE("a disk that takes no more stops puts and nothing else") {
  const auto spec = store_spec(fresh_store_folder("full"));
  auto store = open_store(spec);
  fill(*store, 4);
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto old = std::signal(SIGXFSZ, SIG_IGN);
  const DiskLayout layout(spec.block_bytes, spec.domain);
  const rlimit small{layout.block_at(6) + 100, before.rlim_max};  // within block 6
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  Status status = ok_status();
  const std::size_t kept = put_blocks(*store, {2, 10, 5, 6, 7}, {202, 210, 205, 206, 207}, &status);
  const std::size_t found = hits(*store, 2);
  const bool over = get_block(*store, 2, 202), failed = get_block(*store, 5, 205) || get_block(*store, 6, 206);
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  std::signal(SIGXFSZ, old);
  CHECK(kept == 1);  // the one that was written over; a run that is cut is not kept
  CHECK_FALSE(status);
  CHECK((found == 2 && over && !failed));
  CHECK(store->inventory().size() == 4);
  CHECK(put_blocks(*store, {5, 6, 7}, {205, 206, 207}) == 3);
  store.reset();
  store = open_store(spec);
  CHECK((get_block(*store, 2, 202) && get_block(*store, 6, 206)));
  CHECK(store->inventory().size() == 7);
}

TEST_CASE("room on the disk is left for others") {
  auto spec = store_spec(fresh_store_folder("spare"));
  fill(*open_store(spec), 4);
  spec.spare_bytes = std::uint64_t{1} << 60;
  const auto store = open_store(spec);
  CHECK(hits(*store, 4) == 4);
  Status status = ok_status();
  CHECK(put_blocks(*store, {5}, {5}, &status) == 0);
  REQUIRE_FALSE(status);
  CHECK(status.error().error_class == ErrorClass::kStorageFailed);
  CHECK(hits(*store, 4) == 4);
}

TEST_CASE("a disk that stays full is said once") {
  auto spec = store_spec(fresh_store_folder("said_once"));
  fill(*open_store(spec), 4);
  spec.spare_bytes = std::uint64_t{1} << 60;
  const fs::path log = spec.folder / "log";
  CHECK(in_child([&] {
    base::set_log_level("warning");
    if (std::freopen(log.c_str(), "w", stderr) == nullptr) return false;
    const auto store = DiskStore::open(spec);
    for (BlockId i = 0; i < 5; ++i) put_blocks(**store, {i}, {i + 1U});
    return std::fflush(stderr) == 0;
  }));
  const std::string said = content_of(log);
  CHECK(std::count(said.begin(), said.end(), '\n') == 1);
  CHECK(said.find("spared for others") != std::string::npos);
}

/// A tiny file system of its own; needs rights that not everybody has.
class TinyDisk {
 public:
  explicit TinyDisk(fs::path at) : at_(std::move(at)) {
    fs::create_directories(at_);
    mounted_ = ::mount("troupe-test", at_.c_str(), "tmpfs", 0, "size=256k,mode=0700") == 0;
  }
  ~TinyDisk() {
    if (mounted_) ::umount2(at_.c_str(), MNT_DETACH);
  }
  bool read_only(bool yes) { return ::mount("troupe-test", at_.c_str(), "tmpfs", MS_REMOUNT | (yes ? MS_RDONLY : 0), "size=256k") == 0; }
  bool mounted() const { return mounted_; }

 private:
  fs::path at_;
  bool mounted_ = false;
};

TEST_CASE("a tiny disk that is full, and one that can only be read") {
  const auto folder = fresh_store_folder("tiny_disk");
  TinyDisk disk(folder);
  if (!disk.mounted()) {
    WARN("not tested: no right to mount a tmpfs");
    return;
  }
  const auto spec = store_spec(folder, 5000, 100);
  auto store = open_store(spec);
  std::size_t kept = 0;
  for (BlockId i = 0; i < 100; ++i) kept += put_blocks(*store, {i}, {100 + i});
  CHECK((kept > 10 && kept < 40));
  CHECK(hits(*store, 100) == kept);
  CHECK(put_blocks(*store, {1}, {101}) <= 1);
  store.reset();
  store = open_store(spec);
  CHECK(store->inventory().size() >= kept - 1);
  CHECK(hits(*store, 100) == store->inventory().size());
  const std::size_t left = store->inventory().size();
  store.reset();
  REQUIRE(disk.read_only(true));
  store = open_store(spec);  // hits, no puts
  CHECK(hits(*store, 100) == left);
  Status status = ok_status();
  CHECK(put_blocks(*store, {1}, {101}, &status) == 0);
  CHECK_FALSE(status);
  store->drop(store->inventory());
  CHECK(store->inventory().empty());
  store.reset();
  auto other = spec;
  other.domain = {7, 7};
  CHECK_FALSE(DiskStore::open(other));
}

}  // namespace
}  // namespace troupe::exec
