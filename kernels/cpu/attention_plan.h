// How attention over a batch is cut into pieces that threads take. A decode row walks its blocks once for all kv heads; a prefill chunk is
// cut by kv head and by rows, so that many rows share a tile. Sequences that begin with the same blocks walk those together. A decode row
// that is longer than a thread's share is split by tiles.
// Pure function of the batch's shape; the caller's thread. No cut changes a bit of the results.
#pragma once
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/shared_prefix.h"

#include <span>
#include <vector>

namespace troupe::kernels::cpu {

inline std::size_t tiles_of(const SequenceRows& s) { return (s.position + s.rows - 1) / kBlockTokens + 1; }
inline std::size_t round_up(std::size_t n, std::size_t unit) { return (n + unit - 1) / unit * unit; }

/// Rows of one sequence over neighbouring kv heads.
struct AttentionPiece {
  const SequenceRows* sequence;
  std::size_t first, count;      // positions: rows of the sequence
  std::size_t head, heads;       // kv heads
  std::size_t q_first, q_count;  // query heads of each kv head

  std::size_t rows() const { return count * q_count; }  // (position, query head) pairs of a kv head
  /// Rows from head to head. Those of several heads follow each other if they are of one position (decode); else they are padded.
  std::size_t stride() const { return heads > 1 && count == 1 ? rows() : round_up(rows(), 16); }
  std::size_t batch_row(std::size_t r) const { return sequence->first_row + first + r / q_count; }
  std::size_t q_head(std::size_t h, std::size_t r, std::size_t group) const { return (head + h) * group + q_first + r % q_count; }
  std::size_t work() const { return (sequence->position + first + count + kBlockTokens) * rows() * heads; }
};

/// All rows of sequences that begin with the same blocks, over neighbouring kv heads.
struct SharedPiece {
  std::span<const PrefixMember> members;
  std::size_t head, heads;
  std::size_t rows;  // (position, query head) pairs of a kv head
  std::size_t work;
};

struct AttentionPlan {
  std::vector<PrefixMember> members;  // of `shared`
  std::vector<SharedPiece> shared;    // taken in turn, then `pieces`, the largest of each first
  std::vector<AttentionPiece> pieces;
  std::vector<AttentionPiece> split;  // decode rows that all threads work on together
};

/// `group`: query heads that share a kv head.
AttentionPlan plan_attention(std::span<const SequenceRows> sequences, std::size_t group, std::size_t kv_heads, std::size_t threads);

}  // namespace troupe::kernels::cpu
