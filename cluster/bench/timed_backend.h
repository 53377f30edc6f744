// TimedBackend: a backend in front of another that can time every call: where a step's time goes, op by op. While it does not record it
// only passes calls on. Owned by the engine that it serves; ops are called by its compute thread, totals() and record() by whoever
// knows that no call is under way.
// Invariant: results are those of the inner backend, bit for bit.
#pragma once
#include "kernels/backend.h"
#include "runtime/model/model.h"

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string_view>

namespace troupe::cluster::bench {

/// What a call is for; products are told apart by their shapes.
enum class Op : std::uint8_t { kEmbed, kQkv, kRopeAppend, kAttention, kOutput, kGateUp, kDown, kHead, kAdd, kSample, kOther };
constexpr std::size_t kOps = 11;
std::string_view op_name(Op op);
bool is_product(Op op);

struct OpTotal {
  double seconds = 0;
  double operations = 0;  // multiplications and additions of products and attention
  double bytes = 0;       // of weights, or of K and V
};
using OpTotals = std::array<OpTotal, kOps>;

class TimedBackend final : public kernels::Backend {
 public:
  using Clock = std::chrono::steady_clock;

  TimedBackend(std::unique_ptr<kernels::Backend> inner, const model::ModelConfig& config);

  void record(bool on) { recording_ = on; }
  /// Since the last call; and when the first of them began and the last one ended.
  OpTotals take_totals(Clock::time_point& first, Clock::time_point& last);

  std::string_view name() const override { return inner_->name(); }
  std::string description() const override { return inner_->description(); }
  std::size_t threads() const override { return inner_->threads(); }
  kernels::Activations activations() const override { return inner_->activations(); }
  std::unique_ptr<kernels::Weight> pack(std::span<const kernels::MatrixSource> sources) override { return inner_->pack(sources); }
  std::string pack_layout() const override { return inner_->pack_layout(); }
  std::unique_ptr<kernels::Weight> adopt(std::span<const kernels::MatrixSource> sources, const PackedReader& read) override {
    return inner_->adopt(sources, read);
  }
  std::unique_ptr<kernels::KvCache> make_kv_cache(const kernels::KvShape& shape) override { return inner_->make_kv_cache(shape); }

  void embed(const kernels::Weight& table, std::span<const std::uint32_t> ids, kernels::Rows y) override;
  void rms_norm(kernels::Rows x, const float* weight, float eps, kernels::Rows y) override;
  void linear(const kernels::Weight& weight, kernels::Rows x, kernels::Rows y, kernels::Output output) override;
  void norm_linear(kernels::Rows x, const float* norm_weight, float eps, const kernels::Weight& weight, kernels::Rows y) override;
  void norm_linear_two_terms(kernels::Rows x, const float* norm_weight, float eps, const kernels::Weight& weight, kernels::Rows y) override;
  void swiglu_linear(kernels::Rows gate_up, const kernels::Weight& weight, kernels::Rows y, kernels::Output output) override;
  void swiglu(kernels::Rows gate_up, kernels::Rows y) override;
  void add(kernels::Rows x, kernels::Rows addend) override;
  void rope_append(kernels::Rows qkv, std::size_t q_heads, std::span<const kernels::SequenceRows> sequences, const kernels::RopeTable& rope,
                   kernels::KvCache& kv, std::size_t layer) override;
  void attention(kernels::Rows qkv, std::size_t q_heads, std::span<const kernels::SequenceRows> sequences, const kernels::KvCache& kv,
                 std::size_t layer, kernels::Rows out) override;
  void sample(std::span<const kernels::SampleRequest> requests, std::span<kernels::SampleResult> results) override;
  void encode(kernels::Rows x, kernels::WireFormat format, std::span<std::byte> to) override;
  void encode_carrying(kernels::Rows x, kernels::Rows loss, kernels::WireFormat format, std::span<std::byte> to) override;
  void decode_sum(std::span<const std::span<const std::byte>> parts, kernels::WireFormat format, kernels::Rows y,
                  kernels::Output output) override;
  void add_bias(kernels::Rows x, const float* bias) override;
  void set_poll(std::function<void()> poll) override { inner_->set_poll(std::move(poll)); }
  void synchronize() override { inner_->synchronize(); }

 private:
  template <class Call>
  void timed(Op op, Call&& call);
  template <class Call>
  void product(const kernels::Weight& weight, std::size_t rows, Call&& call);
  Op product_op(const kernels::Weight& weight) const;

  std::unique_ptr<kernels::Backend> inner_;
  const std::size_t hidden_, ffn_, vocabulary_, qkv_width_;
  bool recording_ = false;
  OpTotals totals_{};
  Clock::time_point first_{}, last_{};
};

}  // namespace troupe::cluster::bench
