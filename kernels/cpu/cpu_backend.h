// The CPU backend: cuts every op into shares for the thread team and hands them to the kernels of the chosen level.
// Thread: one caller at a time (the shard's compute thread), which works along as thread 0. Calls complete at once.
// Invariant: how an op is cut changes no bit of its result, so the team may shrink or grow between two calls.
#pragma once
#include "kernels/backend.h"
#include "kernels/cpu/cpu_attention.h"
#include "kernels/cpu/cpu_kv_cache.h"
#include "kernels/cpu/kernel_lists.h"
#include "kernels/cpu/pack.h"
#include "kernels/cpu/poll.h"
#include "kernels/cpu/sampling.h"
#include "kernels/cpu/thread_team.h"

namespace troupe::kernels::cpu {

/// Inputs of a matrix product as int8 rows, as rows rounded to bf16 and, for float weights and on the way to those, as fp32 rows. Grows,
/// never shrinks.
class ProductInput {
 public:
  void reserve_int8(std::size_t rows, std::size_t cols, bool per_group);
  void reserve_float(std::size_t rows, std::size_t cols);
  const QuantizedRows& int8() const { return int8_; }
  float* float_row(std::size_t i) { return floats_.data() + i * float_stride_; }
  std::size_t float_stride() const { return float_stride_; }
  float* error_row(std::size_t i) { return errors_.data() + i * float_stride_; }
  void reserve_errors(std::size_t rows);  // after reserve_float
  float* bfloat_row(std::size_t i) { return bfloats_.data() + i * float_stride_; }
  void reserve_bfloats(std::size_t rows);  // after reserve_float

 private:
  std::vector<std::int8_t> values_;
  std::vector<float> scales_, scaled_sums_, floats_, errors_, bfloats_;
  std::vector<std::int32_t> half_sums_, biases_;
  QuantizedRows int8_;
  std::size_t float_stride_ = 0;
};

class CpuBackend final : public Backend {
 public:
  CpuBackend(const CpuOptions& options, const KernelSet& kernels);

  std::string_view name() const override { return "cpu"; }
  std::string description() const override;
  std::size_t threads() const override { return team_.size(); }
  Activations activations() const override { return activations_; }

  std::unique_ptr<Weight> pack(std::span<const MatrixSource> sources) override;
  std::string pack_layout() const override;
  std::unique_ptr<Weight> adopt(std::span<const MatrixSource> sources, const PackedReader& read) override;
  std::unique_ptr<KvCache> make_kv_cache(const KvShape& shape) override;
  void embed(const Weight& table, std::span<const std::uint32_t> ids, Rows y) override;
  void rms_norm(Rows x, const float* weight, float eps, Rows y) override;
  void linear(const Weight& weight, Rows x, Rows y, Output output) override;
  void norm_linear(Rows x, const float* norm_weight, float eps, const Weight& weight, Rows y) override;
  void norm_linear_two_terms(Rows x, const float* norm_weight, float eps, const Weight& weight, Rows y) override;
  void swiglu_linear(Rows gate_up, const Weight& weight, Rows y, Output output) override;
  void swiglu(Rows gate_up, Rows y) override;
  void add(Rows x, Rows addend) override;
  void rope_append(Rows qkv, std::size_t q_heads, std::span<const SequenceRows> sequences, const RopeTable& rope, KvCache& kv,
                   std::size_t layer) override;
  void attention(Rows qkv, std::size_t q_heads, std::span<const SequenceRows> sequences, const KvCache& kv, std::size_t layer,
                 Rows out) override;
  void sample(std::span<const SampleRequest> requests, std::span<SampleResult> results) override;
  void encode(Rows x, WireFormat format, std::span<std::byte> to) override;
  void encode_carrying(Rows x, Rows loss, WireFormat format, std::span<std::byte> to) override;
  void decode_sum(std::span<const std::span<const std::byte>> parts, WireFormat format, Rows y, Output output) override;
  void add_bias(Rows x, const float* bias) override;
  void set_poll(std::function<void()> poll) override { poll_.set(std::move(poll)); }
  void synchronize() override {}

 private:
  /// What is done to a row on its way into a product.
  struct Source {
    enum class Kind { kPlain, kNorm, kSwiglu } kind = Kind::kPlain;
    Rows x;
    const float* norm_weight = nullptr;
    float eps = 0;
    bool two_terms = false;  // int8 inputs as a value and its error
    Output output = Output::kStore;
  };

  void product(const Source& source, const Weight& weight, Rows y);
  void prepare_row(const Source& source, std::size_t row, std::size_t cols, bool want_int8, ProductInput& input) const;
  void multiply(const Source& source, const PackedWeight& weight, ProductInput& input, Rows y, const ThreadTeam::Member& member);
  void multiply_segment(const Source& source, const WeightSegment& segment, std::size_t cols, ProductInput& input, Rows y, std::size_t row0,
                        std::size_t row1, std::size_t panel0, std::size_t panel1);
  void multiply_in_pieces(const Source& source, const WeightSegment& segment, std::size_t cols, ProductInput& input, Rows y,
                          std::size_t row0, std::size_t row1, std::size_t panel0, std::size_t panel1, Poll& poll);
  bool uses_int8(PanelFormat format) const { return has_int8_inputs() && is_quantized(format); }
  bool has_int8_inputs() const { return activations_ == Activations::kInt8Group32 || activations_ == Activations::kInt8Token; }
  /// nullptr: this thread calls nobody.
  Poll* poll_of(const ThreadTeam::Member& member) { return member.index() == 0 && poll_.wanted() ? &poll_ : nullptr; }
  template <typename Op>
  void for_rows(std::size_t rows, std::size_t work_per_row, Op op);

  const KernelSet kernels_;
  const Activations activations_;
  const WeightFormat weight_format_;
  ThreadTeam team_;
  PageArena weights_;
  std::vector<float> addends_;            // products of float weights that are added to y, [rows][outputs]
  ProductInput shared_input_;             // many rows: each thread prepares a share
  std::vector<ProductInput> own_inputs_;  // few rows: each thread prepares all of them for itself
  Poll poll_;
  CpuAttention attention_;
  std::vector<Sampler> samplers_;
  std::vector<const std::uint8_t*> parts_;  // of a sum that is decoded
};

}  // namespace troupe::kernels::cpu
