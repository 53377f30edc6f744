// A decode row walks its blocks once for all kv heads; a prefill chunk is cut by kv head and by rows, so that many rows share a tile. A
// decode row that is longer than a thread's share is split by tiles, and the parts are folded in order: the same bits, since tiles are
// independent until then.
#include "kernels/cpu/cpu_attention.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <stdexcept>

namespace troupe::kernels::cpu {
namespace {

constexpr std::size_t kPartBytes = 128 << 10;  // parts of a thread and round: they are read again from its cache
constexpr std::size_t kTilesToSplit = 64;      // fewer are not worth the meetings

std::size_t round_up(std::size_t n, std::size_t unit) { return (n + unit - 1) / unit * unit; }
std::size_t tiles_of(const SequenceRows& s) { return (s.position + s.rows - 1) / kBlockTokens + 1; }

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

void require(bool condition, const char* what) {
  if (!condition) throw std::invalid_argument(what);
}

}  // namespace

CpuAttention::CpuAttention(const AttentionKernels& kernels, ThreadTeam& team) : kernels_(kernels), team_(team), scratch_(team.size()) {}

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

CpuAttention::Plan CpuAttention::plan(const Call& call, std::span<const SequenceRows> sequences) const {
  Plan plan;
  const std::size_t threads = team_.active(), group = call.group, kv_heads = call.kv->shape().kv_heads;
  std::size_t total = 0, count = 0;
  for (const SequenceRows& s : sequences) {
    total += s.rows > 0 ? s.rows * tiles_of(s) : 0;
    count += s.rows > 0;
  }
  // All heads of a block lie together: one thread walks them together unless others would stand idle.
  const bool whole_rows = count >= 4 * threads || count % threads == 0;
  const bool heads_balance = 10 * round_up(kv_heads, threads) <= 11 * kv_heads;
  for (const SequenceRows& s : sequences) {
    if (s.rows == 0) continue;
    if (s.rows == 1 && group <= kMaxAttentionRows) {
      const bool is_long = threads > 1 && tiles_of(s) * threads > total;
      if (is_long && !heads_balance && tiles_of(s) >= kTilesToSplit) {
        plan.split.push_back({&s, 0, 1, 0, kv_heads, 0, group});
        continue;
      }
      const std::size_t parts = whole_rows && !is_long ? 1 : std::min(threads, kv_heads);
      for (std::size_t i = 0; i < parts; ++i) {
        const std::size_t from = kv_heads * i / parts, to = kv_heads * (i + 1) / parts;
        plan.pieces.push_back({&s, 0, 1, from, to - from, 0, group});
      }
      continue;
    }
    const std::size_t q_most = std::min<std::size_t>(group, kMaxAttentionRows), positions = kMaxAttentionRows / q_most;
    for (std::size_t end = s.rows; end > 0;) {
      const std::size_t first = end > positions ? end - positions : 0;
      for (std::size_t head = 0; head < kv_heads; ++head)
        for (std::size_t q = 0; q < group; q += q_most)
          plan.pieces.push_back({&s, first, end - first, head, 1, q, std::min(q_most, group - q)});
      end = first;
    }
  }
  std::stable_sort(plan.pieces.begin(), plan.pieces.end(), [](const Piece& a, const Piece& b) { return a.work() > b.work(); });
  return plan;
}

void CpuAttention::reserve(Call& call, bool split) {
  const std::size_t dim = call.kv->shape().head_dim;
  for (Scratch& scratch : scratch_) scratch.reserve(std::max<std::size_t>(call.q_heads, kMaxAttentionRows), dim);
  if (!split) return;
  const std::size_t tile_bytes = call.q_heads * (dim + 16 + 2) * sizeof(float);
  call.part_tiles = std::clamp<std::size_t>(kPartBytes / tile_bytes, 4, 64);
  const std::size_t bytes = call.part_tiles * team_.size() * tile_bytes + 4 * 64;
  for (PageBuffer& buffer : parts_)
    if (buffer.size() < bytes) buffer = PageBuffer(bytes);
}

/// The piece's queries and an empty state, in `scratch`.
AttentionRun CpuAttention::begin(const Call& call, const Piece& piece, Scratch& scratch) const {
  const KvShape& shape = call.kv->shape();
  const std::size_t dim = shape.head_dim, rows = piece.rows(), stride = piece.stride();
  const auto scale = static_cast<float>(0x1.71547652b82fep+0 / std::sqrt(static_cast<double>(dim)));
  for (std::size_t r = 0; r < rows; ++r)
    scratch.positions[r] = static_cast<std::int32_t>(piece.sequence->position + piece.first + r / piece.q_count);
  for (std::size_t h = 0; h < piece.heads; ++h)
    for (std::size_t r = 0; r < rows; ++r) {
      const float* q = call.qkv.row(piece.batch_row(r)) + piece.q_head(h, r, call.group) * dim;
      const std::size_t at = h * stride + r;
      if (shape.format == KvFormat::kInt8)
        kernels_.quantize_query(q, static_cast<int>(dim), scale, scratch.q + at * dim, scratch.q_scale + at, scratch.q_sum + at);
      else
        std::memcpy(scratch.q_float + at * dim, q, dim * sizeof(float));
    }
  const std::size_t all = round_up(piece.heads * stride, 16);
  std::fill_n(scratch.max, all, kNever);
  std::fill_n(scratch.lanes, all * 16, 0.0F);
  std::fill_n(scratch.out, all * dim, 0.0F);

  AttentionRun run;
  run.layer = call.kv->slab(call.layer, 0) + piece.head * call.kv->head_bytes();
  run.block_bytes = call.kv->slab_bytes();
  run.head_bytes = call.kv->head_bytes();
  run.blocks = piece.sequence->blocks;
  run.head_dim = static_cast<int>(dim);
  run.heads = static_cast<int>(piece.heads);
  run.rows = static_cast<int>(rows);
  run.row_stride = static_cast<int>(stride);
  run.positions = scratch.positions;
  run.q = scratch.q;
  run.q_scale = scratch.q_scale;
  run.q_sum = scratch.q_sum;
  run.q_float = scratch.q_float;
  run.score_scale = scale;
  run.max = scratch.max;
  run.lanes = scratch.lanes;
  run.out = scratch.out;
  return run;
}

void CpuAttention::attend_tiles(const Call& call, const AttentionRun& run, std::size_t tile0, std::size_t tile1) const {
  const KvFormat format = call.kv->shape().format;
  const auto kernel = format == KvFormat::kInt8   ? kernels_.attend_int8
                      : format == KvFormat::kFp16 ? kernels_.attend_f16
                                                  : kernels_.attend_f32;
  kernel(run, static_cast<int>(tile0), static_cast<int>(tile1));
}

void CpuAttention::finish(const Call& call, const Piece& piece, const AttentionRun& run, std::size_t head, std::size_t r) const {
  const std::size_t dim = call.kv->shape().head_dim, at = head * piece.stride() + r;
  float* y = call.out.row(piece.batch_row(r)) + piece.q_head(head, r, call.group) * dim;
  kernels_.finish(run.lanes + at * 16, run.out + at * dim, static_cast<int>(dim), y);
}

void CpuAttention::attend(const Call& call, const Piece& piece, Scratch& scratch) const {
  const AttentionRun run = begin(call, piece, scratch);
  attend_tiles(call, run, 0, static_cast<std::size_t>(run.positions[run.rows - 1] / kBlockTokens) + 1);
  for (std::size_t h = 0; h < piece.heads; ++h)
    for (std::size_t r = 0; r < piece.rows(); ++r) finish(call, piece, run, h, r);
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
void CpuAttention::attend_split(const Call& call, const Piece& piece, const ThreadTeam::Member& member, std::size_t& round) {
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
    if (begin < end) attend_tiles(call, own, first + begin, first + end);
    member.barrier();
    for (std::size_t r = from; r < to; ++r)
      kernels_.fold_row(made, static_cast<int>(r), run.max + r, run.lanes + r * 16, run.out + r * dim);
  }
  for (std::size_t r = from; r < to; ++r) finish(call, piece, run, r / piece.rows(), r % piece.rows());
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
  const Plan plan = this->plan(call, sequences);
  reserve(call, !plan.split.empty());
  std::atomic<std::size_t> next{0};
  const auto work = [&](const ThreadTeam::Member& member) {
    std::size_t round = 0;
    for (const Piece& piece : plan.split) attend_split(call, piece, member, round);
    for (std::size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < plan.pieces.size();)
      attend(call, plan.pieces[i], scratch_[member.index()]);
  };
  if (plan.pieces.size() + 2 * plan.split.size() > 1)
    team_.run(work);
  else
    team_.run_alone(work);
}

}  // namespace troupe::kernels::cpu
