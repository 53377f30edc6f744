// Opening a DiskStore: finds or makes its file, locks it, and learns from the records what it holds.
#include "messages/error_reasons.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/exec/disk_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>
#include <thread>
#include <utility>

namespace troupe::exec {
namespace {

constexpr std::string_view kSuffix = ".blocks";
constexpr std::size_t kMostFiles = 64;
constexpr int kMostTries = 8;
constexpr std::chrono::milliseconds kLookedAt{10};

bool only_read(int error) { return error == EACCES || error == EPERM || error == EROFS; }

}  // namespace

void DiskStore::make_room() {
  if (!std::exchange(made_room_, true)) folder_.trim(kSuffix, others_bytes_, kMostFiles);
}

std::string DiskStore::file_name(const StoreSpec& spec) {
  return base::hex(base::Hasher().add(spec.domain).add(spec.block_bytes).finish()) + std::string(kSuffix);
}

Result<std::unique_ptr<TierStore>> DiskStore::open(const StoreSpec& spec) {
  if (auto checked = check_store(spec); !checked) return checked.error();
  if (spec.folder.empty())
    return make_error(ErrorClass::kInvalidRequest, ErrorReason::kBadConfig, "store of K/V blocks: no folder is given", "folder");
  try {
    std::unique_ptr<DiskStore> store(new DiskStore(spec));
    if (auto status = store->open_file(); !status) return status.error();
    return std::unique_ptr<TierStore>(std::move(store));
  } catch (const std::bad_alloc&) {
    return make_error(ErrorClass::kUnavailable, ErrorReason::kOutOfMemory,
                      "not enough memory for the list of " + std::to_string(spec.blocks) + " K/V blocks on disk");
  }
}

Status DiskStore::open_file() {
  const std::filesystem::path path = folder_.path() / name_;
  constexpr int kFlags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  for (int i = 0; i < kMostTries; ++i) {
    bool writable = true;
    base::Descriptor file(::open(path.c_str(), O_RDWR | kFlags));
    if (!file && only_read(errno)) {
      writable = false;
      file = base::Descriptor(::open(path.c_str(), O_RDONLY | kFlags));
    }
    if (!file && errno == ENOENT) {
      if (auto made = folder_.make(); !made) return made;
      file = base::Descriptor(::open(path.c_str(), O_RDWR | O_CREAT | kFlags, 0600));
    }
    if (!file) return failed("cannot be opened");
    if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      if (i + 1 < kMostTries) {  // it may only be looked at by one that makes room
        std::this_thread::sleep_for(kLookedAt);
        continue;
      }
      errno = 0;
      return failed("another process uses it; give this one another folder, or go on without");
    }  // some file systems have no locks; two processes then cost each other hits, no more, since all reads are checked
    struct stat info {};
    if (::fstat(file.get(), &info) != 0) return failed("cannot be examined");
    if (info.st_nlink > 0) return take_file(std::move(file), writable);
  }  // deleted before it was locked
  errno = 0;
  return failed("is deleted again and again");
}

/// The locked file becomes the store's, or an Error.
Status DiskStore::take_file(base::Descriptor file, bool writable) {
  struct stat info {};
  errno = 0;
  if (::fstat(file.get(), &info) != 0) return failed("cannot be examined");
  if (!S_ISREG(info.st_mode)) return failed("is no regular file");
  if (info.st_uid != ::geteuid() && info.st_uid != 0) return failed("belongs to another user");
  file_ = std::move(file);
  writable_ = writable;
  if (writable_ && (info.st_mode & (S_IRGRP | S_IROTH)) != 0) ::fchmod(file_.get(), info.st_mode & 0700);  // best effort
  const timespec now[2] = {{0, UTIME_NOW}, {0, UTIME_NOW}};
  ::futimens(file_.get(), now);  // counts as a use; best effort
  const auto size = static_cast<std::uint64_t>(info.st_size);
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) return start_empty("others could have written it");
  DiskHead head;
  std::array<std::byte, sizeof(DiskHead)> bytes{};
  if (size == 0) return start_empty(nullptr);
  if (!base::read_at(file_, 0, bytes)) return start_empty("too short");
  std::memcpy(&head, bytes.data(), sizeof head);
  if (const char* fault = layout_.fault_of(head)) return start_empty(fault);
  if (writable_ && size > layout_.file_bytes(blocks_) && ::ftruncate(file_.get(), static_cast<off_t>(layout_.file_bytes(blocks_))) != 0)
    return failed("cannot be made smaller");
  read_records();
  return ok_status();
}

Status DiskStore::start_empty(const char* why) {
  if (why != nullptr) base::log(base::LogLevel::kWarning, "kv_disk_store_emptied", "file=" + name_ + " reason=" + base::log_value(why));
  errno = 0;
  if (!writable_) return failed("cannot be written");
  const DiskHead head = layout_.head();
  if (::ftruncate(file_.get(), 0) != 0 || ::fchmod(file_.get(), 0600) != 0 ||
      !base::write_at(file_, 0, std::as_bytes(std::span(&head, 1))) || ::fsync(file_.get()) != 0)
    return failed("cannot be written");
  const base::Descriptor folder(::open(folder_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder) ::fsync(folder.get());  // so that the name is there after a power cut, too
  return ok_status();
}

/// Keeps records that are sound and whose bytes can be there; the bytes themselves are checked when they are read.
void DiskStore::read_records() {
  struct stat info {};
  if (::fstat(file_.get(), &info) != 0) return;
  const auto size = static_cast<std::uint64_t>(info.st_size);
  std::size_t kept = 0, damaged = 0, cut_off = 0;
  for (BlockId first = 0; first < blocks_ && layout_.record_at(first) < size; first += DiskLayout::kChunkBlocks) {
    const auto records = std::span(records_).subspan(first, std::min(DiskLayout::kChunkBlocks, blocks_ - first));
    const std::uint64_t there = (size - layout_.record_at(first)) / sizeof(DiskRecord);
    const auto readable = records.first(static_cast<std::size_t>(std::min<std::uint64_t>(records.size(), there)));
    if (!base::read_at(file_, layout_.record_at(first), std::as_writable_bytes(readable))) {
      std::fill(records.begin(), records.end(), DiskRecord{});
      ++damaged;
      continue;
    }
    bool any_lost = false;
    for (std::size_t i = 0; i < records.size(); ++i) {
      DiskRecord& record = records[i];
      const auto block = static_cast<BlockId>(first + i);
      const bool sound = layout_.sound(block, record), whole = layout_.block_at(block) + block_bytes_ <= size;
      if (sound && whole) {
        record.used = clock_.adopt(record.used);
        ++kept;
        continue;
      }
      const bool lost = record.key || record.checksum != 0;
      if (lost) ++(sound ? cut_off : damaged);
      any_lost = any_lost || lost;
      record = {};
    }
    if (any_lost && writable_) write_records(first, records.size());  // said once; best effort
  }
  base::log(
      damaged > 0 ? base::LogLevel::kWarning : base::LogLevel::kInfo, "kv_disk_store_opened",
      "file=" + name_ + " blocks=" + std::to_string(kept) + " cut_off=" + std::to_string(cut_off) + " damaged=" + std::to_string(damaged));
}

}  // namespace troupe::exec
