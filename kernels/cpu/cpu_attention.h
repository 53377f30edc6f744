// Attention of a batch on the thread team. Owner: a CpuBackend, whose caller is thread 0 of the team.
// Invariant: how the work is cut changes no bit of it; no memory is taken while the team runs.
#pragma once
#include "kernels/backend.h"
#include "kernels/cpu/attention_plan.h"
#include "kernels/cpu/cpu_kv_cache.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/page_buffer.h"
#include "kernels/cpu/poll.h"
#include "kernels/cpu/thread_team.h"

#include <span>
#include <vector>

namespace troupe::kernels::cpu {

class CpuAttention {
 public:
  /// `poll` is called between tiles, on thread 0.
  CpuAttention(const AttentionKernels& kernels, ThreadTeam& team, Poll& poll);
  /// As Backend::attention. Throws std::invalid_argument for shapes that do not fit, std::bad_alloc.
  void run(Rows qkv, std::size_t q_heads, std::span<const SequenceRows> sequences, const CpuKvCache& kv, std::size_t layer, Rows out);

 private:
  struct Call {
    Rows qkv, out;
    std::size_t q_heads, group;  // query heads, and those that share a kv head
    std::size_t layer;
    const CpuKvCache* kv;
    std::size_t part_tiles = 0;  // of a split row, per thread and round
  };
  /// Queries and fold state of rows.
  class Scratch {
   public:
    void reserve(std::size_t rows, std::size_t dim);
    void clear(std::size_t rows, std::size_t dim) const;
    void copy_row(const Scratch& from, std::size_t from_row, std::size_t to_row, std::size_t dim, KvFormat format) const;
    std::int32_t *positions = nullptr, *q_sum = nullptr;
    float *q_scale = nullptr, *max = nullptr, *lanes = nullptr, *out = nullptr, *q_float = nullptr;
    std::int8_t* q = nullptr;
    Poll* poll = nullptr;  // of its thread, if that calls somebody

   private:
    PageBuffer memory_;
    std::size_t rows_ = 0, dim_ = 0;
  };

  void reserve(Call& call, const AttentionPlan& plan);
  void set_queries(const Call& call, const AttentionPiece& piece, const Scratch& scratch, std::size_t first_row, std::size_t stride) const;
  AttentionRun run_of(const Call& call, const AttentionPiece& piece, const Scratch& scratch) const;
  AttentionRun begin(const Call& call, const AttentionPiece& piece, const Scratch& scratch) const;
  void attend_tiles(const Call& call, const AttentionRun& run, std::size_t tile0, std::size_t tile1, Poll* poll) const;
  void finish(const Call& call, const AttentionPiece& piece, const AttentionRun& run) const;
  void finish_row(const Call& call, const AttentionPiece& piece, const AttentionRun& run, std::size_t head, std::size_t r) const;
  void attend(const Call& call, const AttentionPiece& piece, const Scratch& scratch) const;

  class SharedWalk;
  /// `own`: room for the rows of one sequence.
  void attend_shared(const Call& call, const SharedPiece& piece, const Scratch& scratch, const Scratch& own) const;

  AttentionParts parts(std::size_t round, std::size_t rows, std::size_t dim, std::size_t tiles) const;
  void attend_split(const Call& call, const AttentionPiece& piece, const ThreadTeam::Member& member, std::size_t& round);

  const AttentionKernels& kernels_;
  ThreadTeam& team_;
  Poll& poll_;
  std::vector<Scratch> scratch_, own_;  // one a thread; the second for a sequence of a shared piece
  PageBuffer parts_[2];                 // of a split row
};

}  // namespace troupe::kernels::cpu
