#include "runtime/collective/collective.h"

#include "runtime/collective/outbox.h"
#include "runtime/collective/reduce.h"
#include "runtime/collective/wire_buffer.h"
#include "runtime/collective/wire_wait.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>
#include <string>
#include <utility>

namespace troupe::collective {

using kernels::Output;
using kernels::Rows;
using kernels::WireFormat;

class Collective::State {
 public:
  State(std::unique_ptr<Transport> transport, kernels::Backend& backend, const CollectiveOptions& options, const std::atomic<bool>& abort)
      : options_(options), backend_(backend), wait_(options.spin_us, abort), transport_(std::move(transport)) {
    for (std::size_t i = 0; i < kReduces; ++i) reduces_.emplace_back(*transport_, backend, options, reduce_channel(i));
    TROUPE_CHECK(transport_->rank() == options_.place.rank && transport_->ranks() == options_.place.shape.ranks());
  }

  void advance() {
    if (lost_) throw PeerLost(*lost_);
    transport_->progress();
    for (Reduce& reduce : reduces_) reduce.advance();
  }

  template <class Ready>
  std::chrono::nanoseconds until(Ready ready) {
    return wait_.until([this] { advance(); }, ready);
  }

  Outbox::Place& place(Outbox& outbox, std::size_t receivers) {
    if (outbox.full()) until([&outbox] { return !outbox.full(); });
    return outbox.place(receivers);
  }

  void receive(std::size_t rank, Channel channel, std::span<std::byte> bytes) {
    transport_->receive(rank, channel, bytes, in_);
    until([this] { return in_.done; });
  }

  /// Of rows between stages.
  WireFormat row_format() const { return options_.format == WireFormat::kFp32 ? WireFormat::kFp32 : WireFormat::kBf16; }

  CollectiveOptions options_;
  kernels::Backend& backend_;
  WireWait wait_;
  std::chrono::nanoseconds reduces_waited_{0};
  std::vector<WireSpan> spans_;
  std::optional<std::string> lost_;  // what poll() came upon
  // Bytes that travel, then the transport: it goes first.
  std::deque<Reduce> reduces_;  // kReduces
  Outbox outbox_, ids_;
  WireBuffer inbox_;
  Transfer in_;
  std::unique_ptr<Transport> transport_;
};

Collective::Collective(std::unique_ptr<Transport> transport, kernels::Backend& backend, CollectiveOptions options,
                       const std::atomic<bool>& abort)
    : state_(std::make_unique<State>(std::move(transport), backend, options, abort)) {}
Collective::~Collective() = default;
const CollectiveOptions& Collective::options() const { return state_->options_; }

void Collective::start_reduce(std::size_t reduce, Rows addend, Carry carry) {
  TROUPE_CHECK(reduce < kReduces && !state_->reduces_[reduce].under_way());
  Reduce& started = state_->reduces_[reduce];
  state_->advance();
  if (!started.sent()) state_->reduces_waited_ += state_->until([&] { return started.sent(); });
  started.start(addend, carry);
  state_->advance();
}

void Collective::finish_reduce(std::size_t reduce, Rows y, Output output) {
  TROUPE_CHECK(reduce < kReduces && state_->reduces_[reduce].under_way());
  Reduce& finished = state_->reduces_[reduce];
  state_->reduces_waited_ += state_->until([&] { return finished.arrived(); });
  if (const std::optional<WireSpan> span = finished.finish(y, output)) state_->spans_.push_back(*span);
}

void Collective::poll() noexcept {
  if (state_->lost_) return;
  try {
    state_->transport_->progress();
  } catch (const std::exception& lost) {
    state_->lost_ = lost.what();
  }
}

void Collective::gather_slices(Rows mine, std::span<const std::size_t> widths, Rows all) {
  const base::ShardPlace& place = state_->options_.place;
  const std::size_t first_rank = place.stage() * place.shape.tensor_ranks;
  TROUPE_CHECK(widths.size() == place.shape.tensor_ranks && mine.width == widths[place.tensor_rank()]);
  if (place.tensor_rank() != 0) {
    Outbox::Place& out = state_->place(state_->outbox_, 1);
    const std::span<std::byte> bytes = out.buffer.of(mine.count * mine.width * sizeof(float));
    for (std::size_t i = 0; i < mine.count && mine.width != 0; ++i)
      std::memcpy(bytes.data() + i * mine.width * sizeof(float), mine.row(i), mine.width * sizeof(float));
    state_->transport_->send(first_rank, Channel::kRows, bytes, out.transfers[0]);
    return;
  }
  std::size_t column = 0;
  for (std::size_t t = 0; t < widths.size(); ++t) {
    TROUPE_CHECK(all.count == mine.count && column + widths[t] <= all.width);
    const std::size_t row_bytes = widths[t] * sizeof(float);
    std::span<std::byte> bytes;
    if (t != 0) {
      bytes = state_->inbox_.of(mine.count * row_bytes);
      state_->receive(first_rank + t, Channel::kRows, bytes);
    }
    for (std::size_t i = 0; i < mine.count && row_bytes != 0; ++i) {
      const void* row = t == 0 ? static_cast<const void*>(mine.row(i)) : bytes.data() + i * row_bytes;
      std::memmove(all.row(i) + column, row, row_bytes);
    }
    column += widths[t];
  }
}

void Collective::send_rows(Rows rows) {
  const base::ShardPlace& place = state_->options_.place;
  TROUPE_CHECK(!place.in_last_stage());
  Outbox::Place& out = state_->place(state_->outbox_, 1);
  const std::span<std::byte> bytes = out.buffer.of(rows.count * kernels::wire_row_bytes(state_->row_format(), rows.width));
  if (rows.count != 0) state_->backend_.encode(rows, state_->row_format(), bytes);
  state_->transport_->send(place.rank + place.shape.tensor_ranks, Channel::kRows, bytes, out.transfers[0]);
  state_->advance();
}

void Collective::receive_rows(Rows rows) {
  const base::ShardPlace& place = state_->options_.place;
  TROUPE_CHECK(!place.in_first_stage());
  const std::span<std::byte> bytes = state_->inbox_.of(rows.count * kernels::wire_row_bytes(state_->row_format(), rows.width));
  state_->receive(place.rank - place.shape.tensor_ranks, Channel::kRows, bytes);
  const std::span<const std::byte> part = bytes;
  if (rows.count != 0) state_->backend_.decode_sum({&part, 1}, state_->row_format(), rows, Output::kStore);
}

void Collective::send_tokens(std::span<const std::uint32_t> tokens) {
  const base::ShardPlace& place = state_->options_.place;
  TROUPE_CHECK(place.samples());
  const std::size_t ranks = place.shape.ranks();
  Outbox::Place& out = state_->place(state_->ids_, ranks);
  const std::span<std::byte> bytes = out.buffer.of(tokens.size_bytes());
  if (!tokens.empty()) std::memcpy(bytes.data(), tokens.data(), bytes.size());
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    if (rank != place.rank) state_->transport_->send(rank, Channel::kTokens, bytes, out.transfers[rank]);
  }
  state_->advance();
}

void Collective::receive_tokens(std::span<std::uint32_t> tokens) {
  const base::ShardPlace& place = state_->options_.place;
  TROUPE_CHECK(!place.samples());
  state_->receive(place.sampling_rank(), Channel::kTokens, std::as_writable_bytes(tokens));
}

void Collective::broadcast(std::span<std::byte> bytes) {
  const base::ShardPlace& place = state_->options_.place;
  if (place.rank != 0) return state_->receive(0, Channel::kRows, bytes);
  const std::size_t ranks = place.shape.ranks();
  Outbox::Place& out = state_->place(state_->outbox_, ranks);
  const std::span<std::byte> sent = out.buffer.of(bytes.size());
  std::copy(bytes.begin(), bytes.end(), sent.begin());
  for (std::size_t rank = 1; rank < ranks; ++rank) state_->transport_->send(rank, Channel::kRows, sent, out.transfers[rank]);
  state_->until([&] { return out.sent(); });
}

void Collective::finish_sends() {
  state_->until([this] {
    return state_->outbox_.sent() &&
           std::all_of(state_->reduces_.begin(), state_->reduces_.end(), [](const Reduce& reduce) { return reduce.sent(); });
  });
}

bool Collective::settle() noexcept {
  poll();
  return state_->lost_ || state_->transport_->left();
}

void Collective::set_format(WireFormat format) {
  state_->options_.format = format;
  for (Reduce& reduce : state_->reduces_) {
    TROUPE_CHECK(!reduce.under_way());
    reduce.set_format(format);
  }
}

WireTimes Collective::take_times() {
  WireTimes times{state_->wait_.take_waited(), std::exchange(state_->reduces_waited_, {}), std::exchange(state_->spans_, {})};
  std::sort(times.spans.begin(), times.spans.end(), [](const WireSpan& a, const WireSpan& b) { return a.begin < b.begin; });
  return times;
}

}  // namespace troupe::collective
