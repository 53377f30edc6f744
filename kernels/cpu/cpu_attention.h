// Attention of a batch on the thread team. Owner: a CpuBackend, whose caller is thread 0 of the team.
// Invariant: how the work is cut changes no bit of it; no memory is taken while the team runs.
#pragma once
#include "kernels/backend.h"
#include "kernels/cpu/cpu_kv_cache.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/page_buffer.h"
#include "kernels/cpu/thread_team.h"

#include <span>
#include <vector>

namespace troupe::kernels::cpu {

class CpuAttention {
 public:
  CpuAttention(const AttentionKernels& kernels, ThreadTeam& team);
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
  /// What one thread does: rows of one sequence over neighbouring kv heads.
  struct Piece {
    const SequenceRows* sequence;
    std::size_t first, count;      // positions: rows of the sequence
    std::size_t head, heads;       // kv heads
    std::size_t q_first, q_count;  // query heads of each kv head

    std::size_t rows() const { return count * q_count; }  // (position, query head) pairs of a kv head
    /// Rows from head to head. A kv head alone has its rows padded; the rows of several (decode) follow each other.
    std::size_t stride() const { return heads > 1 ? rows() : (rows() + 15) / 16 * 16; }
    std::size_t batch_row(std::size_t r) const { return sequence->first_row + first + r / q_count; }
    std::size_t q_head(std::size_t h, std::size_t r, std::size_t group) const { return (head + h) * group + q_first + r % q_count; }
    std::size_t work() const { return (sequence->position + first + count + kBlockTokens) * rows() * heads; }
  };
  struct Plan {
    std::vector<Piece> pieces;  // taken in turn, the largest first
    std::vector<Piece> split;   // decode rows that all threads work on together
  };
  /// Queries and fold state of one piece.
  class Scratch {
   public:
    void reserve(std::size_t rows, std::size_t dim);
    std::int32_t *positions = nullptr, *q_sum = nullptr;
    float *q_scale = nullptr, *max = nullptr, *lanes = nullptr, *out = nullptr, *q_float = nullptr;
    std::int8_t* q = nullptr;

   private:
    PageBuffer memory_;
    std::size_t rows_ = 0, dim_ = 0;
  };

  Plan plan(const Call& call, std::span<const SequenceRows> sequences) const;
  void reserve(Call& call, bool split);
  AttentionRun begin(const Call& call, const Piece& piece, Scratch& scratch) const;
  void attend(const Call& call, const Piece& piece, Scratch& scratch) const;
  void attend_split(const Call& call, const Piece& piece, const ThreadTeam::Member& member, std::size_t& round);
  void attend_tiles(const Call& call, const AttentionRun& run, std::size_t tile0, std::size_t tile1) const;
  AttentionParts parts(std::size_t round, std::size_t rows, std::size_t dim, std::size_t tiles) const;
  void finish(const Call& call, const Piece& piece, const AttentionRun& run, std::size_t head, std::size_t r) const;

  const AttentionKernels& kernels_;
  ThreadTeam& team_;
  std::vector<Scratch> scratch_;  // one a thread
  PageBuffer parts_[2];           // of a split row
};

}  // namespace troupe::kernels::cpu
