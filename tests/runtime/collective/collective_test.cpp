// Sums over ranks: the same bits on all of them, equal to the definition, whatever the split of rows.
#include "runtime/collective/collective.h"
#include "runtime/collective/codec_table.h"
#include "tests/runtime/collective/rank_threads.h"
#include "tests/support/random.h"

#include <catch2/catch.hpp>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <thread>

using namespace troupe;
using namespace troupe::collective;
using kernels::Output;
using kernels::Rows;
using kernels::WireFormat;
using test::need;
using test::RankThreads;

namespace {
struct Matrix {
  std::size_t rows, width;
  std::vector<float> values = std::vector<float>(rows * width);
  Rows all() { return {values.data(), rows, width, width}; }
  Rows part(std::size_t first, std::size_t count) { return all().slice(first, count); }
};
bool same_bits(const Matrix& a, const Matrix& b) {
  return a.values.size() == b.values.size() && std::memcmp(a.values.data(), b.values.data(), a.values.size() * sizeof(float)) == 0;
}

/// Rank r's addend: about normal, a few channels fifty times as large.
Matrix addend(std::size_t rank, std::size_t rows, std::size_t width) {
  Matrix matrix{rows, width};
  test::SmallRandom random(rank + 1);
  for (std::size_t i = 0; i < matrix.values.size(); ++i) matrix.values[i] = random.normal() * (i % width % 97 == 5 ? 50.0F : 1.0F);
  return matrix;
}

std::unique_ptr<kernels::Backend> backend() {
  kernels::CpuOptions options;
  options.threads = 1;
  options.pin = false;
  options.spin_us = 0;
  return kernels::make_cpu_backend(options);
}

/// parts decoded and added up in rank order; with more than two ranks through the codec once more.
Matrix definition(std::vector<Matrix> addends, WireFormat format) {
  const auto cpu = backend();
  Matrix sum{addends[0].rows, addends[0].width};
  const std::size_t bytes = sum.rows * kernels::wire_row_bytes(format, sum.width);
  std::vector<std::vector<std::byte>> encoded;
  std::vector<std::span<const std::byte>> parts;
  for (Matrix& one : addends) cpu->encode(one.all(), format, encoded.emplace_back(bytes));
  for (const auto& one : encoded) parts.emplace_back(one);
  cpu->decode_sum(parts, format, sum.all(), Output::kStore);
  if (addends.size() <= 2) return sum;
  cpu->encode(sum.all(), format, encoded[0]);
  cpu->decode_sum({parts.data(), 1}, format, sum.all(), Output::kStore);
  return sum;
}

base::ShardPlace place_of(std::size_t rank, std::size_t tensor_ranks, std::size_t stages = 1) {
  return {{static_cast<std::uint16_t>(tensor_ranks), static_cast<std::uint16_t>(stages)}, static_cast<std::uint16_t>(rank)};
}

/// Runs `part` on each rank of a group over loopback.
using Part = std::function<void(Collective&, const base::ShardPlace&)>;
void run(std::size_t tensor_ranks, std::size_t stages, WireFormat format, const Part& part) {
  RankThreads group({}, tensor_ranks * stages);
  group.run([&](std::unique_ptr<Transport> transport) {
    const auto cpu = backend();
    const base::ShardPlace place = place_of(transport->rank(), tensor_ranks, stages);
    Collective collective(std::move(transport), *cpu, {place, format, 0}, group.abort);
    part(collective, place);
  });
}

constexpr std::size_t kRows = 13, kWidth = 200;
}  // namespace

TEST_CASE("a reduce is the sum of its definition, bit for bit on all ranks") {
  const std::size_t ranks = GENERATE(1u, 2u, 3u, 4u);
  const WireFormat format = GENERATE(from_range(std::begin(kernels::kAllWireFormats), std::end(kernels::kAllWireFormats)));
  CAPTURE(ranks, codec_name(format));
  std::vector<Matrix> addends;
  for (std::size_t rank = 0; rank < ranks; ++rank) addends.push_back(addend(rank, kRows, kWidth));
  const Matrix expected = definition(addends, format);
  Matrix expected_added = addend(99, kRows, kWidth);
  for (std::size_t i = 0; i < expected.values.size(); ++i) expected_added.values[i] += expected.values[i];

  run(ranks, 1, format, [&](Collective& collective, const base::ShardPlace& place) {
    Matrix mine = addends[place.rank], y{kRows, kWidth}, residual = addend(99, kRows, kWidth);
    collective.start_reduce(0, mine.all());
    std::fill(mine.values.begin(), mine.values.end(), 0.0F);
    collective.finish_reduce(0, y.all(), Output::kStore);
    need(same_bits(y, expected), "stored");
    // Two parts of any size, in turns, and polled in between.
    for (std::size_t split = 0; split <= kRows; ++split) {
      Matrix again = addends[place.rank];
      residual = addend(99, kRows, kWidth);
      collective.start_reduce(0, again.part(0, split));
      collective.poll();
      collective.start_reduce(1, again.part(split, kRows - split));
      if (place.rank % 2) collective.poll();
      collective.finish_reduce(0, residual.part(0, split), Output::kAdd);
      collective.finish_reduce(1, residual.part(split, kRows - split), Output::kAdd);
      need(same_bits(residual, expected_added), "split at " + std::to_string(split));
    }
    const WireTimes times = collective.take_times();
    need(times.spans.size() == (ranks == 1 ? 0 : 1 + 2 * (kRows + 1)), "spans");
    for (const WireSpan& span : times.spans) need(span.begin <= span.end, "a span ends before it begins");
    if (ranks == 2) need(times.spans[0].bytes == kRows * kernels::wire_row_bytes(format, kWidth), "bytes");
    need(collective.take_times().spans.empty(), "taken times are there again");
  });
}

TEST_CASE("waiting for the rows of another stage is no waiting for a reduce") {
  run(1, 2, WireFormat::kInt8Group128, [](Collective& collective, const base::ShardPlace& place) {
    Matrix rows = addend(place.rank, kRows, kWidth);
    collective.start_reduce(0, rows.all());
    collective.finish_reduce(0, rows.all(), Output::kStore);
    collective.take_times();
    if (place.rank == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      collective.send_rows(rows.all());
      return;
    }
    collective.receive_rows(rows.all());
    const WireTimes times = collective.take_times();
    need(times.waited.count() > 0, "waited for the rows");
    need(times.reduces_waited.count() == 0, "waited for no reduce");
  });
}

TEST_CASE("the error of a reduce is bounded by the scales of its groups") {
  const std::size_t ranks = GENERATE(2u, 3u);
  const auto [format, group, levels] = GENERATE(table<WireFormat, std::size_t, float>({{WireFormat::kInt8Group128, 128, 127.0F},
                                                                                       {WireFormat::kInt8Group32, 32, 127.0F},
                                                                                       {WireFormat::kInt6Group32, 32, 31.0F},
                                                                                       {WireFormat::kInt4Group32, 32, 7.0F}}));
  CAPTURE(ranks, codec_name(format));
  std::vector<Matrix> addends;
  for (std::size_t rank = 0; rank < ranks; ++rank) addends.push_back(addend(rank, kRows, kWidth));
  Matrix sum{kRows, kWidth};
  run(ranks, 1, format, [&](Collective& collective, const base::ShardPlace& place) {
    Matrix mine = addends[place.rank], y{kRows, kWidth};
    collective.start_reduce(0, mine.all());
    collective.finish_reduce(0, y.all(), Output::kStore);
    if (place.rank == 0) sum = y;
  });
  std::size_t beyond = 0;
  for (std::size_t row = 0; row < kRows; ++row) {
    for (std::size_t first = 0; first < kWidth; first += group) {
      const std::size_t end = std::min(first + group, kWidth);
      std::vector<double> exact(end - first);
      double bound = 0, largest_sum = 0;
      for (const Matrix& one : addends) {
        float largest = 0;
        for (std::size_t i = first; i < end; ++i) {
          exact[i - first] += one.values[row * kWidth + i];
          largest = std::max(largest, std::abs(one.values[row * kWidth + i]));
        }
        bound += largest / levels / 2;
      }
      if (ranks > 2) {
        for (const double value : exact) largest_sum = std::max(largest_sum, std::abs(value));
        bound += (largest_sum + bound) / levels / 2;
      }
      for (std::size_t i = first; i < end; ++i)
        beyond += std::abs(sum.values[row * kWidth + i] - exact[i - first]) > bound * 1.0001 + 1e-6 ? 1 : 0;
    }
  }
  CHECK(beyond == 0);
}

TEST_CASE("losses that are carried on do not add up over reduces, wherever rows are cut") {
  constexpr std::size_t kLayers = 40;
  const std::size_t ranks = GENERATE(1u, 2u, 3u, 4u);
  const WireFormat format = GENERATE(WireFormat::kInt8Group128, WireFormat::kInt8Group32, WireFormat::kInt4Group32);
  CAPTURE(ranks, codec_name(format));
  const auto addend_of = [](std::size_t layer, std::size_t rank) { return addend(10 * layer + rank, kRows, kWidth); };
  Matrix exact{kRows, kWidth};
  for (std::size_t layer = 0; layer < kLayers; ++layer)
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const Matrix one = addend_of(layer, rank);
      for (std::size_t i = 0; i < one.values.size(); ++i) exact.values[i] += one.values[i];
    }
  /// Of a stream to which all layers add, in two parts; root mean square.
  const auto error = [&](Carry carry, std::size_t split) {
    double squares = 0;
    std::vector<Matrix> streams(ranks, Matrix{kRows, kWidth});
    run(ranks, 1, format, [&](Collective& collective, const base::ShardPlace& place) {
      Matrix& stream = streams[place.rank];
      for (std::size_t layer = 0; layer < kLayers; ++layer) {
        Matrix mine = addend_of(layer, place.rank);
        const Carry now = layer == 0 ? Carry::kNothing : carry;
        collective.start_reduce(0, mine.part(0, split), now);
        collective.start_reduce(1, mine.part(split, kRows - split), now);
        collective.finish_reduce(0, stream.part(0, split), Output::kAdd);
        collective.finish_reduce(1, stream.part(split, kRows - split), Output::kAdd);
      }
    });
    for (const Matrix& stream : streams) CHECK(same_bits(stream, streams[0]));
    for (std::size_t i = 0; i < exact.values.size(); ++i) squares += std::pow(streams[0].values[i] - exact.values[i], 2);
    return std::pair(std::sqrt(squares / static_cast<double>(exact.values.size())), streams[0]);
  };
  const auto [carried, whole] = error(Carry::kLoss, kRows);
  const double added_up = error(Carry::kNothing, kRows).first;
  CAPTURE(carried, added_up);
  CHECK(carried < added_up / 3);  // sqrt(kLayers) is 6.3, and the last loss is a bit larger than the others
  for (const std::size_t split : {0u, 1u, 6u}) CHECK(same_bits(error(Carry::kLoss, split).second, whole));
}

TEST_CASE("what is not a number on one rank is none on any") {
  const std::size_t ranks = GENERATE(2u, 3u);
  const WireFormat format = GENERATE(WireFormat::kFp32, WireFormat::kBf16, WireFormat::kInt8Group128);
  run(ranks, 1, format, [&](Collective& collective, const base::ShardPlace& place) {
    Matrix mine = addend(place.rank, kRows, kWidth), y{kRows, kWidth};
    if (place.rank == 1) mine.values[3 * kWidth + 7] = std::numeric_limits<float>::quiet_NaN();
    collective.start_reduce(0, mine.all());
    collective.finish_reduce(0, y.all(), Output::kStore);
    need(std::isnan(y.values[3 * kWidth + 7]), "NaN became a number");
    need(std::isfinite(y.values[4 * kWidth + 7]), "NaN left its row");
  });
}

TEST_CASE("ranks without rows meet, and few rows have owners too") {
  run(4, 1, WireFormat::kInt8Group32, [&](Collective& collective, const base::ShardPlace& place) {
    collective.start_reduce(0, {});
    collective.finish_reduce(0, {}, Output::kStore);
    Matrix mine = addend(place.rank, 1, kWidth), y{1, kWidth};
    collective.start_reduce(1, mine.all());
    collective.finish_reduce(1, y.all(), Output::kStore);
    std::vector<Matrix> addends;
    for (std::size_t rank = 0; rank < 4; ++rank) addends.push_back(addend(rank, 1, kWidth));
    need(same_bits(y, definition(addends, WireFormat::kInt8Group32)), "one row");
  });
}

TEST_CASE("slices are gathered side by side, and ids and agreements reach all") {
  const std::size_t tensor_ranks = GENERATE(1u, 2u, 3u), stages = GENERATE(1u, 2u);
  CAPTURE(tensor_ranks, stages);
  run(tensor_ranks, stages, WireFormat::kInt8Group128, [&](Collective& collective, const base::ShardPlace& place) {
    std::vector<std::size_t> widths;
    for (std::size_t t = 0; t < tensor_ranks; ++t) widths.push_back(10 + 3 * t);
    const std::size_t width = std::accumulate(widths.begin(), widths.end(), std::size_t{0});
    for (std::size_t round = 0; round < 3; ++round) {
      if (place.in_last_stage()) {
        Matrix wide = addend(place.tensor_rank() + round, 4, 40), all{4, width};
        const Rows mine{wide.values.data(), 4, widths[place.tensor_rank()], 40};
        collective.gather_slices(mine, widths, all.all());
        if (place.samples()) {
          std::size_t column = 0;
          for (std::size_t t = 0; t < tensor_ranks; ++t) {
            const Matrix theirs = addend(t + round, 4, 40);
            for (std::size_t row = 0; row < 4; ++row)
              need(std::memcmp(all.all().row(row) + column, theirs.values.data() + row * 40, widths[t] * sizeof(float)) == 0, "columns");
            column += widths[t];
          }
        }
      }
      std::uint32_t ids[2] = {17 + static_cast<std::uint32_t>(round), 4};
      if (place.samples()) {
        collective.send_tokens(ids);
        collective.send_tokens({});
      } else {
        std::uint32_t told[2]{};
        collective.receive_tokens(told);
        collective.receive_tokens({});
        need(told[0] == ids[0] && told[1] == ids[1], "ids");
      }
      std::array<std::byte, 5> agreed{};
      if (place.rank == 0) agreed.fill(std::byte{42});
      collective.broadcast(agreed);
      need(agreed[4] == std::byte{42}, "agreement");
    }
  });
}

TEST_CASE("rows go on to the next stage as bf16, or exactly where the codec is fp32") {
  const WireFormat format = GENERATE(WireFormat::kFp32, WireFormat::kInt8Group128);
  run(2, 3, format, [&](Collective& collective, const base::ShardPlace& place) {
    for (std::size_t round = 0; round < 4; ++round) {  // the first stage runs ahead
      Matrix rows = addend(round * 2 + place.tensor_rank(), 5, kWidth);
      if (!place.in_first_stage()) {
        Matrix got{5, kWidth};
        collective.receive_rows(got.all());
        if (format != WireFormat::kFp32) rows = definition({rows}, WireFormat::kBf16);
        need(same_bits(got, rows), "rows");
      }
      if (!place.in_last_stage()) collective.send_rows(rows.all());
    }
  });
}

TEST_CASE("who waits is interrupted by the abort flag") {
  RankThreads group({}, 2);
  std::atomic<bool> out{false};
  const auto outcomes = group.outcomes([&](std::unique_ptr<Transport> transport) {
    const auto cpu = backend();
    const base::ShardPlace place = place_of(transport->rank(), 2);
    Collective collective(std::move(transport), *cpu, {place, WireFormat::kFp32, 0}, group.abort);
    Matrix mine = addend(place.rank, 3, kWidth), y{3, kWidth};
    if (place.rank == 1) {  // never starts, and stays: only the flag gets the other out
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      group.abort = true;
      for (int i = 0; i < 10000 && !out; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      collective.finish_reduce(0, y.all(), Output::kStore);  // not under way: a broken invariant
      return;
    }
    collective.start_reduce(0, mine.all());
    try {
      collective.finish_reduce(0, y.all(), Output::kStore);
    } catch (const Interrupted&) {
      out = true;
      throw;
    }
  });
  CHECK(outcomes[0] == "interrupted");
  CHECK_THAT(outcomes[1], Catch::Contains("under_way"));
}

TEST_CASE("a lost peer that only a poll noticed shows at the next call") {
  RankThreads group({}, 2);
  const auto outcomes = group.outcomes([&](std::unique_ptr<Transport> transport) {
    const auto cpu = backend();
    const base::ShardPlace place = place_of(transport->rank(), 2);
    Collective collective(std::move(transport), *cpu, {place, WireFormat::kFp32, 0}, group.abort);
    if (place.rank == 1) return;
    Matrix mine = addend(place.rank, 3, kWidth);
    collective.start_reduce(0, mine.all());
    for (int i = 0; i < 100; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      collective.poll();
    }
    collective.start_reduce(1, mine.all());
  });
  CHECK_THAT(outcomes[0], Catch::Contains("rank 1 has left"));
}

TEST_CASE("codecs are found by name") {
  for (const CodecRow& row : codecs()) {
    CHECK(*find_codec(row.name) == row.format);
    CHECK(codec_name(row.format) == row.name);
  }
  CHECK(codecs().size() == std::size(kernels::kAllWireFormats));
  const auto none = find_codec("int5");
  REQUIRE_FALSE(none.ok());
  CHECK(none.error().client_text.find("int8-g32") != std::string::npos);
}
