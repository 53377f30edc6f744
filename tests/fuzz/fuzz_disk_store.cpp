// Any bytes as the file of a disk store, and any changes to a sound one: an error or a store that works, and never a byte of a block that
// was not put there.
#include "runtime/base/log.h"
#include "runtime/exec/disk_store.h"
#include "tests/fuzz/fuzz_target.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

using namespace troupe;
using namespace troupe::exec;
namespace fs = std::filesystem;

namespace {

constexpr std::size_t kBytes = 100;
constexpr BlockId kBlocks = 6, kPut = 4;

std::vector<std::byte> block(BlockId i) { return std::vector<std::byte>(kBytes, static_cast<std::byte>(i + 1)); }
BlockKey key(BlockId i) { return {i + 1, 7}; }
void demand(bool good) {
  if (!good) std::abort();
}

/// Where syncs cost nothing, if there is such a place. Gone with the process.
class Folder {
 public:
  Folder() {
    base::set_log_level("off");
    const fs::path parent = fs::exists("/dev/shm") ? fs::path("/dev/shm") : fs::temp_directory_path();
    spec_.folder = parent / ("troupe_fuzz_disk_store_" + std::to_string(::getpid()));
    spec_.block_bytes = kBytes;
    spec_.blocks = kBlocks;
    spec_.domain = {1, 2};
    spec_.spare_bytes = 0;
    put(kPut);
    std::ifstream file(path(), std::ios::binary);
    sound_.assign(std::istreambuf_iterator<char>(file), {});
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(spec_.folder, ignored);
  }
  const std::string& sound() const { return sound_; }

  /// Opens a store on these bytes, takes what it says it has, and uses it.
  void try_file(const std::string& bytes) {
    std::ofstream(path(), std::ios::binary | std::ios::trunc) << bytes;
    {
      const auto store = DiskStore::open(spec_);
      demand(store.ok());
      for (const StoredBlock& found : (*store)->inventory()) {
        std::vector<std::byte> got(kBytes);
        BlockRead read{found.block, found.key, got.data()};
        static_cast<void>((*store)->get({&read, 1}));
        demand(!read.done || (found.block < kPut && found.key == key(found.block) && got == block(found.block)));
      }
    }
    put(kBlocks);
  }

 private:
  fs::path path() const { return spec_.folder / DiskStore::file_name(spec_); }
  void put(BlockId count) {
    const auto store = DiskStore::open(spec_);
    demand(store.ok());
    for (BlockId i = 0; i < count; ++i) {
      const auto bytes = block(i);
      BlockWrite write{i, key(i), bytes.data()};
      demand((*store)->put({&write, 1}).ok() && write.done);
    }
    demand((*store)->inventory().size() == count);
  }
  StoreSpec spec_;
  std::string sound_;
};

}  // namespace

FUZZ_TARGET(disk_store) {
  static Folder folder;
  folder.try_file(std::string(reinterpret_cast<const char*>(data), size));
  // Three bytes a change: where in the sound file, and what is flipped there. What is left over cuts the file.
  std::string bytes = folder.sound();
  for (; size >= 3; data += 3, size -= 3) {
    const std::size_t at = (data[0] << 8U | data[1]) % bytes.size();
    bytes[at] = static_cast<char>(bytes[at] ^ data[2]);
  }
  if (size == 2) bytes.resize((data[0] << 8U | data[1]) % bytes.size());
  folder.try_file(bytes);
  return 0;
}
