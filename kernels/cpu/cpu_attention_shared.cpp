// Attention of sequences that begin with the same blocks: a tile that several read is read once for the rows of all.
#include "kernels/cpu/cpu_attention.h"

#include <algorithm>

namespace troupe::kernels::cpu {

/// Sequences that begin with the same blocks, on one thread: all rows walk what all share, then the rows of those that share more, and at
/// last each sequence what is its own. Neighbours in the order of tables have neighbouring rows, so any such part is a run of rows.
class CpuAttention::SharedWalk {
 public:
  SharedWalk(const CpuAttention& attention, const Call& call, const SharedPiece& piece, const Scratch& scratch, const Scratch& own)
      : attention_(attention), call_(call), piece_(piece), scratch_(scratch), own_(own), stride_(round_up(piece.rows, 16)) {}

  void run() const {
    std::size_t row = 0;
    for (const PrefixMember& member : piece_.members) {
      const AttentionPiece rows = rows_of(member);
      attention_.set_queries(call_, rows, scratch_, row, stride_);
      row += rows.rows();
    }
    scratch_.clear(piece_.heads * stride_, dim());
    walk(0, piece_.members.size(), 0, 0);
  }

 private:
  std::size_t dim() const { return call_.kv->shape().head_dim; }
  AttentionPiece rows_of(const PrefixMember& member) const {
    return {member.sequence, 0, member.sequence->rows, piece_.head, piece_.heads, 0, call_.group};
  }

  /// Members [first, last), whose rows begin at `row` and have seen the tiles before `tile`.
  void walk(std::size_t first, std::size_t last, std::size_t row, std::size_t tile) const {
    const std::span<const PrefixMember> members = piece_.members;
    if (last - first == 1) return walk_own(members[first], row, tile);
    std::size_t common = members[first + 1].common, rows = 0;
    for (std::size_t i = first + 1; i < last; ++i) common = std::min(common, members[i].common);
    for (std::size_t i = first; i < last; ++i) rows += rows_of(members[i]).rows();
    if (common > tile) attention_.attend_tiles(call_, rows_at(row, rows, members[last - 1]), tile, common, scratch_.poll);
    for (std::size_t i = first, end = 0; i < last; i = end) {
      std::size_t next_row = row + rows_of(members[i]).rows();
      for (end = i + 1; end < last && members[end].common > common; ++end) next_row += rows_of(members[end]).rows();
      walk(i, end, row, common);
      row = next_row;
    }
  }

  /// Rows [row, row + rows) of every head. `last` has the last of them.
  AttentionRun rows_at(std::size_t row, std::size_t rows, const PrefixMember& last) const {
    AttentionRun run = attention_.run_of(call_, rows_of(last), scratch_);
    run.rows = static_cast<int>(rows);
    run.row_stride = static_cast<int>(stride_);
    run.positions += row;
    run.q += row * dim();
    run.q_scale += row;
    run.q_sum += row;
    run.q_float += row * dim();
    run.max += row;
    run.lanes += row * 16;
    run.out += row * dim();
    return run;
  }

  /// As a piece by itself, whose heads lie together, from `tile` on.
  void walk_own(const PrefixMember& member, std::size_t row, std::size_t tile) const {
    const AttentionPiece piece = rows_of(member);
    for (std::size_t r = 0; r < piece.rows(); ++r) own_.positions[r] = scratch_.positions[row + r];
    for (std::size_t h = 0; h < piece.heads; ++h)
      for (std::size_t r = 0; r < piece.rows(); ++r)
        own_.copy_row(scratch_, h * stride_ + row + r, h * piece.stride() + r, dim(), call_.kv->shape().format);
    const AttentionRun run = attention_.run_of(call_, piece, own_);
    attention_.attend_tiles(call_, run, tile, tiles_of(*member.sequence), scratch_.poll);
    attention_.finish(call_, piece, run);
  }

  const CpuAttention& attention_;
  const Call& call_;
  const SharedPiece& piece_;
  const Scratch &scratch_, &own_;
  const std::size_t stride_;
};

void CpuAttention::attend_shared(const Call& call, const SharedPiece& piece, const Scratch& scratch, const Scratch& own) const {
  SharedWalk(*this, call, piece, scratch, own).run();
}

}  // namespace troupe::kernels::cpu
