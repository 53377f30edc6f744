#include "runtime/exec/group_speed.h"

#include "messages/ids.h"
#include "runtime/model/row_buffer.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <numeric>
#include <span>
#include <vector>

namespace troupe::exec {
namespace {

using kernels::Output;
using kernels::WireFormat;

constexpr double kWorthwhile = 0.05;
// So few bytes are quick on a slow link, and so many rows are computed as those of a long prompt are.
constexpr std::size_t kMostRows = 256, kFewestRows = 32, kMostValues = 256 * 1024;
// What a link lets pass at once before it keeps to its rate (64 KB and more) must not count.
constexpr int kWarmUps = 2, kRounds = 3;

// What a rank measured, as it travels to rank 0.
enum Figure : std::size_t { kDense, kCode, kCodeInt8, kWire, kReduce, kFigures };
using Figures = std::array<float, kFigures>;  // ns a row; kReduce: ns; kCode: of the format that is measured, bf16 where none is named

/// The shortest of a few: anything else on the machine only adds.
template <class Work>
double shortest_ns(Work&& work) {
  double shortest = 0;
  for (int i = 0; i < kRounds; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    const double took = std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
    if (i == 0 || took < shortest) shortest = took;
  }
  return shortest;
}

/// A layer of this rank, in ns a row of all its layers.
double dense_ns(model::Model& model, kernels::Backend& backend, kernels::KvCache& kv, kernels::Rows rows, kernels::Rows out) {
  std::vector<std::uint32_t> blocks((rows.count + kBlockTokens - 1) / kBlockTokens), all(rows.count);
  std::iota(blocks.begin(), blocks.end(), 0U);
  std::iota(all.begin(), all.end(), 0U);
  const kernels::SequenceRows sequence{0, rows.count, 0, blocks.data()};
  model::Chunk chunk{{&sequence, 1}, rows.count};
  if (model.narrows(0)) chunk.wanted = all;
  const double layer = shortest_ns([&] {
    model.run_segment(0, chunk, rows, kv, out, Output::kStore);
    model.run_segment(1, chunk, rows, kv, out, Output::kStore);
    backend.synchronize();
  });
  return layer * static_cast<double>(model.slice().layers.count) / static_cast<double>(rows.count);
}

/// Encoding and decoding of all reduces, ns a row.
double code_ns(kernels::Backend& backend, WireFormat format, std::size_t ranks, std::size_t reduces, kernels::Rows rows,
               kernels::Rows out) {
  std::vector<std::byte> bytes(rows.count * kernels::wire_row_bytes(format, rows.width));
  const std::vector<std::span<const std::byte>> parts(ranks, bytes);
  const double one = shortest_ns([&] {
    backend.encode(rows, format, bytes);
    backend.decode_sum(parts, format, out, Output::kStore);
    backend.synchronize();
  });
  return one * static_cast<double>(reduces) / static_cast<double>(rows.count);
}

/// Time on the wire of the last reduces of `rows`, ns: the first ones are not counted.
double reduce_ns(collective::Collective& collective, kernels::Rows rows, kernels::Rows out, int uncounted) {
  double shortest = 0;
  for (int i = -uncounted; i < kRounds; ++i) {
    collective.start_reduce(0, rows.slice(0, 0));  // the ranks begin together
    collective.finish_reduce(0, out.slice(0, 0), Output::kStore);
    collective.take_times();
    collective.start_reduce(0, rows);
    collective.finish_reduce(0, out, Output::kStore);
    for (const collective::WireSpan& span : collective.take_times().spans) {
      const double took = std::chrono::duration<double, std::nano>(span.end - span.begin).count();
      if (i == 0 || (i > 0 && took < shortest)) shortest = took;
    }
  }
  return shortest;
}

/// The slowest of the first stage's ranks, figure by figure; on rank 0.
Figures gather(const base::ShardPlace& place, collective::Collective& collective, Figures mine) {
  const std::size_t ranks = place.shape.tensor_ranks;
  std::vector<float> all(ranks * kFigures);
  const std::vector<std::size_t> widths(ranks, kFigures);
  collective.gather_slices({mine.data(), 1, kFigures, kFigures}, widths, {all.data(), 1, all.size(), all.size()});
  if (place.rank != 0) return mine;
  for (std::size_t i = 0; i < all.size(); ++i) mine[i % kFigures] = std::max(mine[i % kFigures], all[i]);
  return mine;
}

}  // namespace

WireFormat choose_codec(const CodecCost& bf16, const CodecCost& int8) {
  const auto row_ns = [](const CodecCost& cost) { return std::max(cost.compute_ns, cost.wire_ns); };
  return row_ns(int8) < (1 - kWorthwhile) * row_ns(bf16) ? WireFormat::kInt8Group128 : WireFormat::kBf16;
}

MeasuredGroup measure_group(model::Model& model, kernels::Backend& backend, kernels::KvCache& kv, const base::ShardPlace& place,
                            collective::Collective& collective, std::optional<WireFormat> format) {
  const std::size_t hidden = model.config().hidden, ranks = place.shape.tensor_ranks;
  const std::size_t room = std::min(kv.shape().blocks * kBlockTokens, model.config().context);
  const std::size_t count = std::min(std::clamp(kMostValues / hidden, kFewestRows, kMostRows), room);
  model::RowBuffer values(hidden), sums(hidden);
  const kernels::Rows rows = values.rows(count), out = sums.rows(count);
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t j = 0; j < hidden; ++j) rows.row(i)[j] = static_cast<float>((i * 31 + j * 17) % 64) / 32 - 1;

  const WireFormat measured = format.value_or(WireFormat::kBf16);
  collective.set_format(measured);
  Figures figures{};
  figures[kDense] = static_cast<float>(dense_ns(model, backend, kv, rows, out));
  const std::size_t reduces = ranks > 1 ? model.num_segments() : 0;
  if (reduces > 0) {
    const auto code = [&](WireFormat which) { return static_cast<float>(code_ns(backend, which, ranks, reduces, rows, out)); };
    figures[kCode] = code(measured);
    if (!format) figures[kCodeInt8] = code(WireFormat::kInt8Group128);
    const double latency = reduce_ns(collective, rows.slice(0, 0), out.slice(0, 0), 1);
    const double full = reduce_ns(collective, rows, out, kWarmUps);
    figures[kReduce] = static_cast<float>(latency);
    figures[kWire] = static_cast<float>(std::max(full - latency, 0.0) * static_cast<double>(reduces) / static_cast<double>(count));
  }
  figures = gather(place, collective, figures);

  const auto wire_ns = [&](WireFormat which) {
    return static_cast<double>(figures[kWire]) * static_cast<double>(kernels::wire_row_bytes(which, hidden)) /
           static_cast<double>(kernels::wire_row_bytes(measured, hidden));
  };
  MeasuredGroup group;
  group.format = measured;
  double code = figures[kCode];
  if (!format && choose_codec({figures[kDense] + figures[kCode], wire_ns(measured)},
                              {figures[kDense] + figures[kCodeInt8], wire_ns(WireFormat::kInt8Group128)}) == WireFormat::kInt8Group128) {
    group.format = WireFormat::kInt8Group128;
    code = figures[kCodeInt8];
  }
  group.speed = {figures[kDense] + code, wire_ns(group.format), figures[kReduce] / 1000, static_cast<std::uint32_t>(reduces),
                 static_cast<std::uint32_t>(hidden)};
  collective.broadcast(std::as_writable_bytes(std::span(&group, 1)));
  collective.finish_sends();
  collective.set_format(group.format);
  collective.take_times();
  return group;
}

}  // namespace troupe::exec
