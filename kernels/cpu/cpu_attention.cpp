// Carries out the plan of a batch's attention. Tiles are independent until the fold, and every row's fold is in order: whatever the plan
// joins or splits, the bits are the same.
#include "kernels/cpu/cpu_attention.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <stdexcept>

namespace troupe::kernels::cpu {
namespace {

constexpr std::size_t kPartBytes = 128 << 10;  // parts of a thread and round: they are read again from its cache

/// Hands out arrays of a buffer, each on cache lines of its own.
class Carver {
 public:
  explicit Carver(const PageBuffer& memory) : next_(memory.data()) {}
  template <typename T>
  T* take(std::size_t n) {
    T* p = reinterpret_cast<T*>(next_);
    next_ += round_up(n * sizeof(T), 64);
    return p;
  }

 private:
  std::uint8_t* next_;
};

float score_scale(std::size_t dim) { return static_cast<float>(0x1.71547652b82fep+0 / std::sqrt(static_cast<double>(dim))); }

void require(bool condition, const char* what) {
  if (!condition) throw std::invalid_argument(what);
}

}  // namespace

CpuAttention::CpuAttention(const AttentionKernels& kernels, ThreadTeam& team, Poll& poll)
    : kernels_(kernels), team_(team), poll_(poll), scratch_(team.size()), own_(team.size()) {}

void CpuAttention::Scratch::reserve(std::size_t rows, std::size_t dim) {
  if (rows <= rows_ && dim <= dim_) return;
  rows = std::max(rows_, round_up(rows, 16));
  dim = std::max(dim_, dim);
  memory_ = PageBuffer(rows * (4 * sizeof(float) + 16 * sizeof(float) + dim * (2 * sizeof(float) + 1)) + 8 * 64);
  Carver carver(memory_);
  positions = carver.take<std::int32_t>(rows);
  q_sum = carver.take<std::int32_t>(rows);
  q_scale = carver.take<float>(rows);
  max = carver.take<float>(rows);
  lanes = carver.take<float>(rows * 16);
  out = carver.take<float>(rows * dim);
  q_float = carver.take<float>(rows * dim);
  q = carver.take<std::int8_t>(rows * dim);
  rows_ = rows;
  dim_ = dim;
}

void CpuAttention::Scratch::clear(std::size_t rows, std::size_t dim) const {
  std::fill_n(max, rows, kNever);
  std::fill_n(lanes, rows * 16, 0.0F);
  std::fill_n(out, rows * dim, 0.0F);
}

void CpuAttention::Scratch::copy_row(const Scratch& from, std::size_t from_row, std::size_t to_row, std::size_t dim,
                                     KvFormat format) const {
  if (format == KvFormat::kInt8) {
    std::memcpy(q + to_row * dim, from.q + from_row * dim, dim);
    q_scale[to_row] = from.q_scale[from_row];
    q_sum[to_row] = from.q_sum[from_row];
  } else {
    std::memcpy(q_float + to_row * dim, from.q_float + from_row * dim, dim * sizeof(float));
  }
  max[to_row] = from.max[from_row];
  std::memcpy(lanes + to_row * 16, from.lanes + from_row * 16, 16 * sizeof(float));
  std::memcpy(out + to_row * dim, from.out + from_row * dim, dim * sizeof(float));
}

void CpuAttention::reserve(Call& call, const AttentionPlan& plan) {
  const std::size_t dim = call.kv->shape().head_dim, rows = std::max<std::size_t>(call.q_heads, kMaxAttentionRows);
  for (Scratch& scratch : scratch_) scratch.reserve(rows, dim);
  std::size_t shared = 0;
  for (const SharedPiece& piece : plan.shared) shared = std::max(shared, piece.heads * round_up(piece.rows, 16) + 16);
  if (shared > 0)
    for (std::size_t i = 0; i < scratch_.size(); ++i) {
      scratch_[i].reserve(shared, dim);
      own_[i].reserve(shared, dim);
    }
  if (plan.split.empty()) return;
  const std::size_t tile_bytes = call.q_heads * (dim + 16 + 2) * sizeof(float);
  call.part_tiles = std::clamp<std::size_t>(kPartBytes / tile_bytes, 4, 64);
  const std::size_t bytes = call.part_tiles * team_.size() * tile_bytes + 4 * 64;
  for (PageBuffer& buffer : parts_)
    if (buffer.size() < bytes) buffer = PageBuffer(bytes);
}

/// The piece's positions and queries, from row `first_row` of each head on.
void CpuAttention::set_queries(const Call& call, const AttentionPiece& piece, const Scratch& scratch, std::size_t first_row,
                               std::size_t stride) const {
  const KvShape& shape = call.kv->shape();
  const std::size_t dim = shape.head_dim, rows = piece.rows();
  for (std::size_t r = 0; r < rows; ++r)
    scratch.positions[first_row + r] = static_cast<std::int32_t>(piece.sequence->position + piece.first + r / piece.q_count);
  for (std::size_t h = 0; h < piece.heads; ++h)
    for (std::size_t r = 0; r < rows; ++r) {
      const float* q = call.qkv.row(piece.batch_row(r)) + piece.q_head(h, r, call.group) * dim;
      const std::size_t at = h * stride + first_row + r;
      if (shape.format == KvFormat::kInt8)
        kernels_.quantize_query(q, static_cast<int>(dim), score_scale(dim), scratch.q + at * dim, scratch.q_scale + at, scratch.q_sum + at);
      else
        std::memcpy(scratch.q_float + at * dim, q, dim * sizeof(float));
    }
}

AttentionRun CpuAttention::run_of(const Call& call, const AttentionPiece& piece, const Scratch& scratch) const {
  AttentionRun run;
  run.layer = call.kv->slab(call.layer, 0) + piece.head * call.kv->head_bytes();
  run.block_bytes = call.kv->slab_bytes();
  run.head_bytes = call.kv->head_bytes();
  run.blocks = piece.sequence->blocks;
  run.head_dim = static_cast<int>(call.kv->shape().head_dim);
  run.heads = static_cast<int>(piece.heads);
  run.rows = static_cast<int>(piece.rows());
  run.row_stride = static_cast<int>(piece.stride());
  run.positions = scratch.positions;
  run.q = scratch.q;
  run.q_scale = scratch.q_scale;
  run.q_sum = scratch.q_sum;
  run.q_float = scratch.q_float;
  run.score_scale = score_scale(call.kv->shape().head_dim);
  run.max = scratch.max;
  run.lanes = scratch.lanes;
  run.out = scratch.out;
  return run;
}

/// The piece's queries and an empty state, in `scratch`.
AttentionRun CpuAttention::begin(const Call& call, const AttentionPiece& piece, const Scratch& scratch) const {
  set_queries(call, piece, scratch, 0, piece.stride());
  scratch.clear(round_up(piece.heads * piece.stride(), 16), call.kv->shape().head_dim);
  return run_of(call, piece, scratch);
}

void CpuAttention::attend_tiles(const Call& call, const AttentionRun& run, std::size_t tile0, std::size_t tile1, Poll* poll) const {
  const KvFormat format = call.kv->shape().format;
  const auto kernel = format == KvFormat::kInt8   ? kernels_.attend_int8
                      : format == KvFormat::kFp16 ? kernels_.attend_f16
                                                  : kernels_.attend_f32;
  if (!poll) return kernel(run, static_cast<int>(tile0), static_cast<int>(tile1));
  const std::size_t values = 2 * kBlockTokens * static_cast<std::size_t>(run.head_dim * run.heads);  // K and V of a tile
  const std::size_t most = std::min(Poll::kPieceProducts / static_cast<std::size_t>(run.rows), Poll::kPieceValues);
  const std::size_t tiles = std::max<std::size_t>(1, most / values);
  for (; tile0 < tile1; tile0 += tiles) {
    kernel(run, static_cast<int>(tile0), static_cast<int>(std::min(tile1, tile0 + tiles)));
    poll->after_piece();
  }
}

void CpuAttention::finish_row(const Call& call, const AttentionPiece& piece, const AttentionRun& run, std::size_t head,
                              std::size_t r) const {
  const std::size_t dim = call.kv->shape().head_dim, at = head * piece.stride() + r;
  float* y = call.out.row(piece.batch_row(r)) + piece.q_head(head, r, call.group) * dim;
  kernels_.finish(run.lanes + at * 16, run.out + at * dim, static_cast<int>(dim), y);
}
void CpuAttention::finish(const Call& call, const AttentionPiece& piece, const AttentionRun& run) const {
  for (std::size_t h = 0; h < piece.heads; ++h)
    for (std::size_t r = 0; r < piece.rows(); ++r) finish_row(call, piece, run, h, r);
}

void CpuAttention::attend(const Call& call, const AttentionPiece& piece, const Scratch& scratch) const {
  const AttentionRun run = begin(call, piece, scratch);
  attend_tiles(call, run, 0, static_cast<std::size_t>(run.positions[run.rows - 1] / kBlockTokens) + 1, scratch.poll);
  finish(call, piece, run);
}

AttentionParts CpuAttention::parts(std::size_t round, std::size_t rows, std::size_t dim, std::size_t tiles) const {
  Carver carver(parts_[round % 2]);
  AttentionParts parts;
  parts.max = carver.take<float>(tiles * rows);
  parts.factor = carver.take<float>(tiles * rows);
  parts.lanes = carver.take<float>(tiles * rows * 16);
  parts.out = carver.take<float>(tiles * rows * dim);
  parts.tiles = static_cast<int>(tiles);
  parts.rows = static_cast<int>(rows);
  parts.head_dim = static_cast<int>(dim);
  return parts;
}

/// All threads together, in rounds: each makes the parts of some tiles; when all have, each folds some rows. Two buffers take turns, so
/// a thread that is ahead writes nothing that another still reads.
void CpuAttention::attend_split(const Call& call, const AttentionPiece& piece, const ThreadTeam::Member& member, std::size_t& round) {
  const std::size_t dim = call.kv->shape().head_dim, rows = piece.heads * piece.rows(), tiles = tiles_of(*piece.sequence);
  const AttentionRun run = begin(call, piece, scratch_[member.index()]);
  const std::size_t most = call.part_tiles * member.count(), from = member.begin(rows), to = member.end(rows);
  for (std::size_t first = 0; first < tiles; first += most, ++round) {
    const std::size_t count = std::min(most, tiles - first), begin = member.begin(count), end = member.end(count);
    const AttentionParts made = parts(round, rows, dim, count);
    AttentionRun own = run;
    own.max = made.max + begin * rows;
    own.factor = made.factor + begin * rows;
    own.lanes = made.lanes + begin * rows * 16;
    own.out = made.out + begin * rows * dim;
    if (begin < end) attend_tiles(call, own, first + begin, first + end, nullptr);
    if (Poll* const poll = scratch_[member.index()].poll) poll->after_piece();
    member.barrier();
    for (std::size_t r = from; r < to; ++r)
      kernels_.fold_row(made, static_cast<int>(r), run.max + r, run.lanes + r * 16, run.out + r * dim);
  }
  for (std::size_t r = from; r < to; ++r) finish_row(call, piece, run, r / piece.rows(), r % piece.rows());
}

void CpuAttention::run(Rows qkv, std::size_t q_heads, std::span<const SequenceRows> sequences, const CpuKvCache& kv, std::size_t layer,
                       Rows out) {
  const KvShape& shape = kv.shape();
  require(q_heads > 0 && q_heads % shape.kv_heads == 0, "attention: query heads are no multiple of the kv heads");
  require(qkv.width == (q_heads + 2 * shape.kv_heads) * shape.head_dim, "attention: width of a row");
  require(out.width == q_heads * shape.head_dim, "attention: width of the result");
  require(layer < shape.layers, "attention: no such layer");
  for (const SequenceRows& s : sequences) {
    require(s.first_row + s.rows <= qkv.count && s.first_row + s.rows <= out.count, "attention: rows beyond the batch");
    for (std::size_t b = 0; s.rows > 0 && b <= (s.position + s.rows - 1) / kBlockTokens; ++b)
      require(s.blocks[b] < shape.blocks, "attention: no such block");
  }
  Call call{qkv, out, q_heads, q_heads / shape.kv_heads, layer, &kv};
  const AttentionPlan plan = plan_attention(sequences, call.group, shape.kv_heads, team_.active());
  reserve(call, plan);
  scratch_.front().poll = poll_.wanted() ? &poll_ : nullptr;
  std::atomic<std::size_t> next{0};
  const std::size_t shared = plan.shared.size(), pieces = shared + plan.pieces.size();
  const auto work = [&](const ThreadTeam::Member& member) {
    const Scratch &scratch = scratch_[member.index()], &own = own_[member.index()];
    std::size_t round = 0;
    for (const AttentionPiece& piece : plan.split) attend_split(call, piece, member, round);
    for (std::size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < pieces;) {
      if (i < shared)
        attend_shared(call, plan.shared[i], scratch, own);
      else
        attend(call, plan.pieces[i - shared], scratch);
    }
  };
  if (pieces + 2 * plan.split.size() > 1)
    team_.run(work);
  else
    team_.run_alone(work);
}

}  // namespace troupe::kernels::cpu
