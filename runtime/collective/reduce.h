// Reduce: one sum over the tensor ranks of a stage, from its first byte to its last; used again and again, in its own channel.
// One or two ranks: all exchange their whole addends. More: each owns a run of rows, adds up what all have for them, and sends the sum.
// Part of a Collective; the compute thread. Nothing here waits. Invariant: what is sent stays as it is until sent().
#pragma once
#include "kernels/backend.h"
#include "runtime/collective/collective.h"
#include "runtime/collective/transport.h"
#include "runtime/collective/wire_buffer.h"

#include <optional>
#include <vector>

namespace troupe::collective {

class Reduce {
 public:
  Reduce(Transport& transport, kernels::Backend& backend, const CollectiveOptions& options, Channel channel);

  void set_format(kernels::WireFormat format) { format_ = format; }
  bool under_way() const { return under_way_; }
  /// The last one's bytes have left, so start() may come.
  bool sent() const;
  /// The addend is overwritten.
  void start(kernels::Rows addend, Carry carry);
  /// Of more than two ranks: adds up the own rows and sends them once all addends are there. Calls the backend.
  void advance();
  bool arrived() const;
  /// Once arrived(). None with one rank.
  std::optional<WireSpan> finish(kernels::Rows y, kernels::Output output);

 private:
  std::size_t first_row(std::size_t tensor_rank) const { return rows_ * tensor_rank / ranks_; }
  std::size_t rows_of(std::size_t tensor_rank) const { return first_row(tensor_rank + 1) - first_row(tensor_rank); }
  std::span<std::byte> part_of(std::span<std::byte> all, std::size_t tensor_rank) const;
  template <class Visit>
  void for_peers(Visit visit);
  bool has_scales() const { return format_ != kernels::WireFormat::kFp32 && format_ != kernels::WireFormat::kBf16; }
  void encode(kernels::Rows rows, std::vector<float>& loss, std::span<std::byte> to);
  bool all_done(const std::vector<Transfer>& transfers) const;

  Transport& transport_;
  kernels::Backend& backend_;
  kernels::WireFormat format_;
  const Channel channel_;
  const std::size_t ranks_, me_, first_rank_;  // of the stage
  const bool two_steps_;

  bool under_way_ = false, summed_ = false;
  std::size_t rows_ = 0, width_ = 0, row_bytes_ = 0;
  std::chrono::steady_clock::time_point begin_;
  WireBuffer own_, sum_;
  std::vector<WireBuffer> addends_;                 // by tensor rank; in two steps for the own rows only
  std::vector<float> summed_rows_;                  // the own rows before they are encoded
  std::vector<float> addend_loss_, sum_loss_;       // of the last reduce: all rows, the own rows; used where has_scales()
  std::vector<Transfer> addends_out_, addends_in_;  // by tensor rank
  std::vector<Transfer> sums_out_, sums_in_;
};

}  // namespace troupe::collective
