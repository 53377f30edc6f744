#include "runtime/collective/reduce.h"

#include <algorithm>

namespace troupe::collective {

using kernels::Output;
using kernels::Rows;

Reduce::Reduce(Transport& transport, kernels::Backend& backend, const CollectiveOptions& options, Channel channel)
    : transport_(transport),
      backend_(backend),
      format_(options.format),
      channel_(channel),
      ranks_(options.place.shape.tensor_ranks),
      me_(options.place.tensor_rank()),
      first_rank_(options.place.stage() * ranks_),
      two_steps_(ranks_ > 2),
      addends_(ranks_),
      addends_out_(ranks_),
      addends_in_(ranks_),
      sums_out_(ranks_),
      sums_in_(ranks_) {}

bool Reduce::all_done(const std::vector<Transfer>& transfers) const {
  return std::all_of(transfers.begin(), transfers.end(), [](const Transfer& transfer) { return transfer.done; });
}

std::span<std::byte> Reduce::part_of(std::span<std::byte> all, std::size_t tensor_rank) const {
  return all.subspan(first_row(tensor_rank) * row_bytes_, rows_of(tensor_rank) * row_bytes_);
}

// Each rank begins with its neighbour, so that not all talk to one at first.
template <class Visit>
void Reduce::for_peers(Visit visit) {
  for (std::size_t i = 1; i < ranks_; ++i) {
    const std::size_t peer = (me_ + i) % ranks_;
    visit(peer, first_rank_ + peer);
  }
}

bool Reduce::sent() const { return all_done(addends_out_) && all_done(sums_out_); }

void Reduce::encode(Rows rows, std::vector<float>& loss, std::span<std::byte> to) {
  if (has_scales())
    backend_.encode_carrying(rows, {loss.data(), rows.count, rows.width, rows.width}, format_, to);
  else
    backend_.encode(rows, format_, to);
}

void Reduce::start(Rows addend, Carry carry) {
  TROUPE_CHECK(!under_way_ && sent());
  rows_ = addend.count;
  width_ = addend.width;
  row_bytes_ = kernels::wire_row_bytes(format_, width_);
  under_way_ = true;
  summed_ = false;
  if (has_scales() && carry == Carry::kNothing) {
    addend_loss_.assign(rows_ * width_, 0.0F);
    sum_loss_.assign(two_steps_ ? rows_of(me_) * width_ : 0, 0.0F);
  }
  TROUPE_CHECK(!has_scales() || addend_loss_.size() == rows_ * width_);
  const std::span<std::byte> own = own_.of(rows_ * row_bytes_);
  if (rows_ != 0) encode(addend, addend_loss_, own);
  begin_ = std::chrono::steady_clock::now();
  const std::span<std::byte> sum = sum_.of(two_steps_ ? own.size() : 0);
  for_peers([&](std::size_t peer, std::size_t rank) {
    const std::size_t rows = two_steps_ ? rows_of(me_) : rows_;
    transport_.receive(rank, channel_, addends_[peer].of(rows * row_bytes_), addends_in_[peer]);
    if (two_steps_) transport_.receive(rank, channel_, part_of(sum, peer), sums_in_[peer]);
  });
  for_peers([&](std::size_t peer, std::size_t rank) {
    transport_.send(rank, channel_, two_steps_ ? part_of(own, peer) : own, addends_out_[peer]);
  });
}

void Reduce::advance() {
  if (!under_way_ || !two_steps_ || summed_ || !all_done(addends_in_)) return;
  const std::size_t rows = rows_of(me_);
  const std::span<std::byte> part = part_of(sum_.bytes(), me_);
  if (rows != 0) {
    std::vector<std::span<const std::byte>> parts;
    for (std::size_t t = 0; t < ranks_; ++t) parts.push_back(t == me_ ? part_of(own_.bytes(), me_) : addends_[t].bytes());
    if (summed_rows_.size() < rows * width_) summed_rows_.resize(rows * width_);
    const Rows summed{summed_rows_.data(), rows, width_, width_};
    backend_.decode_sum(parts, format_, summed, Output::kStore);
    encode(summed, sum_loss_, part);
  }
  for_peers([&](std::size_t peer, std::size_t rank) { transport_.send(rank, channel_, part, sums_out_[peer]); });
  summed_ = true;
}

bool Reduce::arrived() const { return all_done(addends_in_) && (!two_steps_ || (summed_ && all_done(sums_in_))); }

std::optional<WireSpan> Reduce::finish(Rows y, Output output) {
  TROUPE_CHECK(under_way_ && arrived());
  TROUPE_CHECK(y.count == rows_ && y.width == width_);
  under_way_ = false;
  if (rows_ != 0) {
    std::vector<std::span<const std::byte>> parts;
    if (two_steps_)
      parts.push_back(sum_.bytes());
    else
      for (std::size_t t = 0; t < ranks_; ++t) parts.push_back(t == me_ ? own_.bytes() : addends_[t].bytes());
    backend_.decode_sum(parts, format_, y, output);
  }
  if (ranks_ == 1) return std::nullopt;
  WireSpan span{begin_, begin_, 0};
  for_peers([&](std::size_t peer, std::size_t) {
    span.end = std::max({span.end, addends_in_[peer].done_at, two_steps_ ? sums_in_[peer].done_at : begin_});
    span.bytes += addends_[peer].bytes().size() + (two_steps_ ? part_of(sum_.bytes(), peer).size() : 0);
  });
  return span;
}

}  // namespace troupe::collective
