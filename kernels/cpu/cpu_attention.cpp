// Attention of a batch: cuts it into pieces (a few rows of one sequence over one or all kv heads) and lets the team take them in turn.
// A decode row walks its blocks once for all kv heads; a prefill chunk is cut by kv head and by rows, so that many rows share a tile.
#include "kernels/cpu/cpu_backend.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <stdexcept>

namespace troupe::kernels::cpu {

std::vector<CpuBackend::AttentionPiece> CpuBackend::cut_attention(std::span<const SequenceRows> sequences, std::size_t group,
                                                                  std::size_t kv_heads) const {
  std::vector<AttentionPiece> pieces;
  const std::size_t threads = team_.active();
  for (const SequenceRows& s : sequences) {
    if (s.rows == 1 && group <= kMaxAttentionRows) {
      // All heads of a block lie together: keep them together unless threads would stand idle.
      const std::size_t parts = sequences.size() >= threads ? 1 : std::min(threads, kv_heads);
      for (std::size_t i = 0; i < parts; ++i) {
        const std::size_t from = kv_heads * i / parts, to = kv_heads * (i + 1) / parts;
        pieces.push_back({&s, 0, 1, from, to - from, 0, group});
      }
      continue;
    }
    const std::size_t q_most = std::min<std::size_t>(group, kMaxAttentionRows), positions = kMaxAttentionRows / q_most;
    for (std::size_t end = s.rows; end > 0;) {  // the last rows see most: begin with them
      const std::size_t first = end > positions ? end - positions : 0;
      for (std::size_t head = 0; head < kv_heads; ++head)
        for (std::size_t q = 0; q < group; q += q_most) pieces.push_back({&s, first, end - first, head, 1, q, std::min(q_most, group - q)});
      end = first;
    }
  }
  return pieces;
}

void CpuBackend::attend(const AttentionCall& call, const AttentionPiece& piece, AttentionScratch& scratch) const {
  const KvShape& shape = call.kv->shape();
  const AttentionKernels& kernels = kernels_.attention;
  const std::size_t dim = shape.head_dim, group = call.q_heads / shape.kv_heads;
  const std::size_t rows = piece.count * piece.q_count, stride = piece.heads > 1 ? rows : (rows + 15) / 16 * 16;
  const std::size_t all = (piece.heads * stride + 15) / 16 * 16;
  const bool int8 = shape.format == KvFormat::kInt8;
  const auto scale = static_cast<float>(0x1.71547652b82fep+0 / std::sqrt(static_cast<double>(dim)));
  const auto grow = [](auto& vector, std::size_t size) {
    if (vector.size() < size) vector.resize(size);
  };
  grow(scratch.positions, rows);
  grow(scratch.q_scale, all);
  grow(scratch.q_sum, all);
  if (int8)
    grow(scratch.q, all * dim);
  else
    grow(scratch.q_float, all * dim);
  scratch.max.assign(all, kNever);
  scratch.lanes.assign(all * 16, 0.0F);
  scratch.out.assign(all * dim, 0.0F);

  for (std::size_t i = 0; i < piece.count; ++i)
    for (std::size_t g = 0; g < piece.q_count; ++g)
      scratch.positions[i * piece.q_count + g] = static_cast<std::int32_t>(piece.sequence->position + piece.first + i);
  const auto offset = [&](std::size_t h, std::size_t g) { return ((piece.head + h) * group + piece.q_first + g) * dim; };
  for (std::size_t h = 0; h < piece.heads; ++h)
    for (std::size_t i = 0; i < piece.count; ++i)
      for (std::size_t g = 0; g < piece.q_count; ++g) {
        const float* q = call.qkv.row(piece.sequence->first_row + piece.first + i) + offset(h, g);
        const std::size_t r = h * stride + i * piece.q_count + g;
        if (int8)
          kernels.quantize_query(q, static_cast<int>(dim), scale, &scratch.q[r * dim], &scratch.q_scale[r], &scratch.q_sum[r]);
        else
          std::memcpy(&scratch.q_float[r * dim], q, dim * sizeof(float));
      }

  AttentionRun run;
  run.layer = call.kv->slab(call.layer, 0) + piece.head * call.kv->head_bytes();
  run.block_bytes = call.kv->block_bytes();
  run.head_bytes = call.kv->head_bytes();
  run.blocks = piece.sequence->blocks;
  run.head_dim = static_cast<int>(dim);
  run.heads = static_cast<int>(piece.heads);
  run.rows = static_cast<int>(rows);
  run.row_stride = static_cast<int>(stride);
  run.positions = scratch.positions.data();
  run.q = scratch.q.data();
  run.q_scale = scratch.q_scale.data();
  run.q_sum = scratch.q_sum.data();
  run.q_float = scratch.q_float.data();
  run.score_scale = scale;
  run.max = scratch.max.data();
  run.lanes = scratch.lanes.data();
  run.out = scratch.out.data();
  const auto attend_tiles = int8 ? kernels.attend_int8 : shape.format == KvFormat::kFp16 ? kernels.attend_f16 : kernels.attend_f32;
  attend_tiles(run, 0, scratch.positions[rows - 1] / kBlockTokens + 1);

  for (std::size_t h = 0; h < piece.heads; ++h)
    for (std::size_t i = 0; i < piece.count; ++i)
      for (std::size_t g = 0; g < piece.q_count; ++g) {
        const std::size_t r = h * stride + i * piece.q_count + g;
        float* y = call.out.row(piece.sequence->first_row + piece.first + i) + offset(h, g);
        kernels.finish(&scratch.lanes[r * 16], &scratch.out[r * dim], static_cast<int>(dim), y);
      }
}

void CpuBackend::attention(Rows qkv, std::size_t q_heads, std::span<const SequenceRows> sequences, const KvCache& kv, std::size_t layer,
                           Rows out) {
  const auto& cache = static_cast<const CpuKvCache&>(kv);
  const KvShape& shape = cache.shape();
  const auto require = [](bool condition, const char* what) {
    if (!condition) throw std::invalid_argument(what);
  };
  require(q_heads > 0 && q_heads % shape.kv_heads == 0, "attention: query heads are no multiple of the kv heads");
  require(qkv.width == (q_heads + 2 * shape.kv_heads) * shape.head_dim, "attention: width of a row");
  require(out.width == q_heads * shape.head_dim, "attention: width of the result");
  require(layer < shape.layers, "attention: no such layer");
  for (const SequenceRows& s : sequences) {
    require(s.first_row + s.rows <= qkv.count && s.first_row + s.rows <= out.count, "attention: rows beyond the batch");
    for (std::size_t b = 0; s.rows > 0 && b <= (s.position + s.rows - 1) / kBlockTokens; ++b)
      require(s.blocks[b] < shape.blocks, "attention: no such block");
  }
  const AttentionCall call{qkv, out, q_heads, layer, &cache};
  const std::vector<AttentionPiece> pieces = cut_attention(sequences, q_heads / shape.kv_heads, shape.kv_heads);
  std::atomic<std::size_t> next{0};
  const auto work = [&](const ThreadTeam::Member& member) {
    for (std::size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < pieces.size();)
      attend(call, pieces[i], attention_scratch_[member.index()]);
  };
  if (pieces.size() > 1)
    team_.run(work);
  else
    team_.run_alone(work);
}

}  // namespace troupe::kernels::cpu
