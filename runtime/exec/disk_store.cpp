#include "runtime/exec/disk_store.h"

#include "messages/error_reasons.h"
#include "runtime/base/log.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace troupe::exec {
namespace {

/// Writes all bytes of `vectors`, which it uses up; false on an error (errno).
bool write_all(const base::Descriptor& file, std::uint64_t offset, std::span<iovec> vectors) {
  while (!vectors.empty()) {
    const ssize_t written = ::pwritev(file.get(), vectors.data(), static_cast<int>(vectors.size()), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    offset += static_cast<std::uint64_t>(written);
    auto rest = static_cast<std::size_t>(written);
    while (!vectors.empty() && rest >= vectors.front().iov_len) {
      rest -= vectors.front().iov_len;
      vectors = vectors.subspan(1);
    }
    if (rest == 0) continue;
    vectors.front().iov_base = static_cast<std::byte*>(vectors.front().iov_base) + rest;
    vectors.front().iov_len -= rest;
  }
  return true;
}

/// How many of `items`, from the first on, are usable and lie side by side in one chunk; at most `most`.
template <class Item, class Usable>
std::size_t run_length(std::span<Item> items, std::size_t most, Usable usable) {
  std::size_t n = 0;
  while (n < std::min(items.size(), most) && usable(items[n]) && items[n].block == items[0].block + n &&
         (n == 0 || items[n].block % DiskLayout::kChunkBlocks != 0))
    ++n;
  return n;
}

}  // namespace

DiskStore::DiskStore(const StoreSpec& spec)
    : TierStore(spec),
      folder_(spec.folder),
      name_(file_name(spec)),
      spare_bytes_(spec.spare_bytes),
      others_bytes_(spec.others_bytes),
      layout_(spec.block_bytes, spec.domain),
      records_(spec.blocks),
      stale_chunks_(spec.blocks / DiskLayout::kChunkBlocks + 1) {
  vectors_.reserve(2 * kRun);
}

DiskStore::~DiskStore() { tidy(); }

bool DiskStore::write_records(BlockId first, std::size_t count) {
  return base::write_at(file_, layout_.record_at(first), std::as_bytes(std::span(records_).subspan(first, count)));
}

/// A record that cannot be cleared on disk does no harm: its bytes are still its own, or fail its checksum.
void DiskStore::forget(BlockId first, std::size_t count) {
  std::fill_n(records_.begin() + first, count, DiskRecord{});
  if (writable_) write_records(first, count);
}

Status DiskStore::put(std::span<BlockWrite> writes) {
  for (BlockWrite& write : writes) write.done = false;
  if (writes.empty()) return ok_status();
  if (!writable_) return not_written(writes, "it can only be read");
  make_room();
  const std::uint64_t free = free_bytes(), needed = writes.size() * std::uint64_t{layout_.place_bytes()};
  if (free < spare_bytes_ || free - spare_bytes_ < needed)
    return not_written(
        writes, "the disk has " + std::to_string(free) + " bytes left, and " + std::to_string(spare_bytes_) + " are spared for others");
  std::string why;
  bool any = false;
  const auto usable = [this](const BlockWrite& write) { return write.block < blocks_ && write.key; };
  for (std::size_t at = 0, n = 0; at < writes.size(); at += std::max<std::size_t>(n, 1)) {
    n = run_length(writes.subspan(at), kRun, usable);
    if (n == 0) continue;
    if (write_run(writes.subspan(at, n)))
      any = true;
    else if (why.empty())
      why = std::strerror(errno);
  }
  if (any && ::fdatasync(file_.get()) != 0) {
    why = std::strerror(errno);
    for (const BlockWrite& write : writes)
      if (write.done) forget(write.block, 1);
    for (BlockWrite& write : writes) write.done = false;
  }
  if (!why.empty()) return not_written(writes, why);
  if (refusing_) base::log(base::LogLevel::kInfo, "kv_disk_store_writes_again", "file=" + name_);
  refusing_ = false;
  return ok_status();
}

/// Until the new bytes are whole, no record may promise what lay there before.
bool DiskStore::write_run(std::span<BlockWrite> run) {
  const BlockId first = run.front().block;
  const auto records = std::span(records_).subspan(first, run.size());
  const bool had = std::any_of(records.begin(), records.end(), [](const DiskRecord& record) { return bool{record.key}; });
  std::fill(records.begin(), records.end(), DiskRecord{});
  if (had && !write_records(first, run.size())) return false;
  vectors_.clear();
  for (const BlockWrite& write : run) {
    vectors_.push_back({const_cast<std::byte*>(write.from), block_bytes_});  // pwritev only reads it
    if (layout_.place_bytes() > block_bytes_) vectors_.push_back({padding_.data(), layout_.place_bytes() - block_bytes_});
  }
  if (!write_all(file_, layout_.block_at(first), vectors_)) return false;
  for (const BlockWrite& write : run)
    records_[write.block] = layout_.record(write.block, write.key, {write.from, block_bytes_}, clock_.next());
  if (!write_records(first, run.size())) {
    const int error = errno;
    forget(first, run.size());
    errno = error;
    return false;
  }
  for (BlockWrite& write : run) write.done = true;
  return true;
}

Status DiskStore::get(std::span<BlockRead> reads) {
  for (BlockRead& read : reads) read.done = false;
  Status status = ok_status();
  const auto usable = [this](const BlockRead& read) { return holds(read.block, read.key); };
  for (std::size_t at = 0, n = 0; at < reads.size(); at += std::max<std::size_t>(n, 1)) {
    n = run_length(reads.subspan(at), kRun, usable);
    if (n == 0) continue;
    // The disk gets one large order; the blocks are taken one by one, so that each is still in the cache of the core when it is checked.
    if (n > 1)
      ::posix_fadvise(file_.get(), static_cast<off_t>(layout_.block_at(reads[at].block)), static_cast<off_t>(n * layout_.place_bytes()),
                      POSIX_FADV_WILLNEED);
    for (BlockRead& read : reads.subspan(at, n)) {
      errno = 0;
      const bool there = base::read_at(file_, layout_.block_at(read.block), {read.to, block_bytes_});
      if (there && check(read)) continue;
      const auto error = damaged(read.block, there ? "damaged" : errno == 0 ? "cut off" : std::strerror(errno));
      if (status) status = error;
    }
  }
  return status;
}

bool DiskStore::check(BlockRead& read) {
  DiskRecord& record = records_[read.block];
  if (!DiskLayout::holds(record, {read.to, block_bytes_})) return false;
  record.used = clock_.next();
  stale_chunks_[read.block / DiskLayout::kChunkBlocks] = true;
  return read.done = true;
}

void DiskStore::drop(std::span<const StoredBlock> blocks) {
  for (const StoredBlock& block : blocks)
    if (holds(block.block, block.key)) forget(block.block, 1);
}

bool DiskStore::tidy() {
  if (!writable_) return false;
  for (std::size_t chunk = 0; chunk < stale_chunks_.size(); ++chunk) {
    if (!stale_chunks_[chunk]) continue;
    const auto first = static_cast<BlockId>(chunk * DiskLayout::kChunkBlocks);
    write_records(first, std::min<std::size_t>(DiskLayout::kChunkBlocks, blocks_ - first));  // best effort
    stale_chunks_[chunk] = false;
  }
  return false;
}

std::vector<StoredBlock> DiskStore::inventory() const {
  std::vector<StoredBlock> blocks;
  std::vector<BlockId> order;
  for (BlockId block = 0; block < blocks_; ++block)
    if (records_[block].key) order.push_back(block);
  std::sort(order.begin(), order.end(), [this](BlockId a, BlockId b) { return records_[a].used < records_[b].used; });
  blocks.reserve(order.size());
  for (const BlockId block : order) blocks.push_back({block, records_[block].key, UseClock::age_s(records_[block].used)});
  return blocks;
}

std::uint64_t DiskStore::free_bytes() const {
  struct statvfs info {};
  return ::fstatvfs(file_.get(), &info) == 0 ? std::uint64_t{info.f_bavail} * info.f_frsize : 0;
}

Status DiskStore::not_written(std::span<BlockWrite> writes, const std::string& why) {
  const auto done = std::count_if(writes.begin(), writes.end(), [](const BlockWrite& write) { return write.done; });
  const std::string text = (folder_.path() / name_).string() + ": K/V blocks are not kept: " + why;
  if (!refusing_) base::log(base::LogLevel::kWarning, "kv_disk_store_not_written", "reason=" + base::log_value(text));
  refusing_ = true;
  return make_error(ErrorClass::kStorageFailed, ErrorReason::kFileUnreadable, text, {},
                    std::to_string(done) + " blocks of the batch are kept");
}

Status DiskStore::damaged(BlockId block, const char* what) {
  forget(block, 1);
  const std::string text = (folder_.path() / name_).string() + ": K/V block " + std::to_string(block) + " is lost: " + what;
  if (!told_damage_) base::log(base::LogLevel::kWarning, "kv_disk_store_damaged", "reason=" + base::log_value(text));
  told_damage_ = true;
  return make_error(ErrorClass::kCorrupted, ErrorReason::kFileUnreadable, text);
}

Error DiskStore::failed(const char* what) const {
  const std::string why = errno == 0 ? std::string() : std::string(": ") + std::strerror(errno);
  return make_error(ErrorClass::kStorageFailed, ErrorReason::kFileUnreadable, (folder_.path() / name_).string() + ": " + what + why);
}

}  // namespace troupe::exec
