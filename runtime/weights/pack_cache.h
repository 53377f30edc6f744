// PackCache: packed weights of one model on their way from and to the cache folder. While a model is loaded it hands out matrices of the
// file that an earlier start has left, and notes all matrices; if the file lacked one or was damaged, a new file is written behind the
// load, by a thread of its own and at low priority. Weights in the cache are the bytes that packing gives: a miss costs time only.
// Owner: the shard's engine, on the loading thread. The noted matrices must outlive it; they are immutable, so the writer may read them
// while the model computes.
#pragma once
#include "kernels/backend.h"
#include "runtime/base/cache_folder.h"
#include "runtime/weights/pack_file.h"

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace troupe::weights {

class PackCache {
 public:
  /// Files of packed weights in a folder, at most; those used last are kept.
  static constexpr std::uint64_t kMostBytes = std::uint64_t{16} << 30;

  /// Looks for the file of this content and layout; `layout` also tells parts of a model apart (model::part_name). Without a folder nothing
  /// is found or written.
  PackCache(base::CacheFolder folder, const Hash128& content, const std::string& layout);
  /// Waits for the writer of a small file, so that short runs leave one, too; stops that of a large one, which is dropped.
  ~PackCache();
  PackCache(const PackCache&) = delete;
  PackCache& operator=(const PackCache&) = delete;

  /// The matrix as packed earlier; nullptr = it has to be packed.
  std::unique_ptr<kernels::Weight> take(kernels::Backend& backend, const std::string& name, std::span<const kernels::MatrixSource> sources);
  /// A matrix that was packed now.
  void note_packed(const std::string& name, const kernels::Weight& weight);
  /// Every matrix so far came from the file.
  bool complete() const { return file_ != nullptr && !packed_any_; }
  /// All matrices are there: begins to write what the folder lacks.
  void write_in_background();
  /// Waits for the writer.
  void finish();
  /// Of this model, in the folder.
  const std::string& file_name() const { return file_name_; }

 private:
  void write();
  void miss(const std::string& why);

  base::CacheFolder folder_;
  Hash128 key_;
  std::string file_name_;
  std::unique_ptr<const PackFile> file_;
  bool packed_any_ = false, told_ = false;
  std::vector<PackedMatrix> matrices_;
  std::atomic<bool> stop_{false};
  std::thread writer_;
};

}  // namespace troupe::weights
