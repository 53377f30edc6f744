#include "runtime/weights/pack_cache.h"

#include "runtime/base/hash.h"
#include "runtime/base/log.h"

#include <sys/resource.h>
#include <sys/stat.h>

namespace troupe::weights {
namespace {

constexpr std::string_view kSuffix = ".packed";
constexpr std::size_t kMostFiles = 64;
constexpr std::uint64_t kSpareBytes = std::uint64_t{1} << 30;  // of the disk, for others
constexpr std::uint64_t kSmallBytes = 256U << 20;              // written in about a second
constexpr int kLowPriority = 10;

static_assert(PackFile::kPiece == kernels::Backend::kAdoptPiece);

Hash128 key_of(const Hash128& content, const std::string& layout) {
  return base::Hasher().add(std::string_view("packed weights")).add(content).add(std::string_view(layout)).finish();
}

}  // namespace

PackCache::PackCache(base::CacheFolder folder, const Hash128& content, const std::string& layout)
    : folder_(std::move(folder)), key_(key_of(content, layout)), file_name_(base::hex(key_) + std::string(kSuffix)) {
  if (!folder_) return;
  base::Descriptor file = folder_.open(file_name_);
  if (!file) return;  // the first start
  std::string why;
  file_ = PackFile::open(std::move(file), key_, why);
  if (!file_) miss(why);
}

PackCache::~PackCache() {
  stop_ = pack_file_bytes(matrices_) > kSmallBytes;
  finish();
}

std::unique_ptr<kernels::Weight> PackCache::take(kernels::Backend& backend, const std::string& name,
                                                 std::span<const kernels::MatrixSource> sources) {
  const PackFile::Entry* entry = file_ ? file_->find(name) : nullptr;
  if (entry == nullptr) return nullptr;
  std::size_t rows = 0;
  for (const auto& source : sources) rows += source.rows;
  std::unique_ptr<kernels::Weight> weight;
  if (entry->rows == rows && entry->cols == sources.front().cols)
    weight = backend.adopt(sources, [&](std::size_t offset, std::span<std::byte> to) { return file_->read(*entry, offset, to); });
  if (!weight || weight->bytes() != entry->bytes) {
    miss("damaged data of " + name);
    return nullptr;
  }
  matrices_.push_back({name, weight->rows(), weight->cols(), weight->packed()});
  return weight;
}

void PackCache::note_packed(const std::string& name, const kernels::Weight& weight) {
  packed_any_ = true;
  matrices_.push_back({name, weight.rows(), weight.cols(), weight.packed()});
}

void PackCache::miss(const std::string& why) {
  if (!told_) base::log(base::LogLevel::kInfo, "packed_weights_unusable", "file=" + file_name_ + " reason=\"" + why + "\"");
  told_ = true;
}

void PackCache::write_in_background() {
  if (!folder_ || complete() || writer_.joinable()) return;
  writer_ = std::thread([this] {
    ::setpriority(PRIO_PROCESS, 0, kLowPriority);  // of this thread; best effort
    write();
  });
}

void PackCache::finish() {
  if (writer_.joinable()) writer_.join();
}

void PackCache::write() {
  const std::uint64_t bytes = pack_file_bytes(matrices_);
  const auto skipped = [&](const std::string& why) {
    base::log(base::LogLevel::kInfo, "packed_weights_not_kept", "reason=\"" + why + "\"");
  };
  folder_.trim(kSuffix, kMostBytes, kMostFiles);  // first: writers that died may have left the disk full
  if (folder_.free_bytes() < bytes + kSpareBytes) {
    skipped("the disk of " + folder_.path().string() + " has no room for " + std::to_string(bytes) + " bytes and a GiB to spare");
    return;
  }
  const Status written =
      folder_.replace(file_name_, [&](const base::Descriptor& file) { return write_pack_file(file, key_, matrices_, stop_); });
  if (!written) {
    if (!stop_) skipped(written.error().client_text);
    return;
  }
  base::log(base::LogLevel::kInfo, "packed_weights_kept", "file=" + file_name_ + " bytes=" + std::to_string(bytes));
  folder_.trim(kSuffix, kMostBytes, kMostFiles);
}

}  // namespace troupe::weights
