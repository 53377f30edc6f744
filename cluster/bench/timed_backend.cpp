// See timed_backend.h.
#include "cluster/bench/timed_backend.h"

#include <utility>

namespace troupe::cluster::bench {

using kernels::Rows;
using kernels::SequenceRows;
using kernels::Weight;

std::string_view op_name(Op op) {
  switch (op) {
    case Op::kEmbed: return "embedding";
    case Op::kQkv: return "norm, QKV";
    case Op::kRopeAppend: return "RoPE, K/V append";
    case Op::kAttention: return "attention";
    case Op::kOutput: return "attention output";
    case Op::kGateUp: return "norm, gate, up";
    case Op::kDown: return "SwiGLU, down";
    case Op::kHead: return "norm, head";
    case Op::kAdd: return "residual";
    case Op::kSample: return "sampling";
    case Op::kOther: return "other kernels";
  }
  return {};
}

bool is_product(Op op) { return op == Op::kQkv || op == Op::kOutput || op == Op::kGateUp || op == Op::kDown || op == Op::kHead; }

TimedBackend::TimedBackend(std::unique_ptr<kernels::Backend> inner, const model::ModelConfig& config)
    : inner_(std::move(inner)),
      hidden_(config.hidden),
      ffn_(config.ffn),
      vocabulary_(config.vocabulary),
      qkv_width_((config.q_heads + 2 * config.kv_heads) * config.head_dim) {}

OpTotals TimedBackend::take_totals(Clock::time_point& first, Clock::time_point& last) {
  first = std::exchange(first_, {});
  last = last_;
  return std::exchange(totals_, {});
}

template <class Call>
void TimedBackend::timed(Op op, Call&& call) {
  if (!recording_) return call();
  const auto start = Clock::now();
  call();
  inner_->synchronize();
  last_ = Clock::now();
  if (first_ == Clock::time_point{}) first_ = start;
  totals_[static_cast<std::size_t>(op)].seconds += std::chrono::duration<double>(last_ - start).count();
}

template <class Call>
void TimedBackend::product(const Weight& weight, std::size_t rows, Call&& call) {
  const Op op = product_op(weight);
  timed(op, std::forward<Call>(call));
  if (!recording_) return;
  OpTotal& total = totals_[static_cast<std::size_t>(op)];
  total.operations += 2.0 * static_cast<double>(rows) * static_cast<double>(weight.rows()) * static_cast<double>(weight.cols());
  total.bytes += static_cast<double>(weight.bytes());
}

Op TimedBackend::product_op(const Weight& weight) const {
  if (weight.rows() == vocabulary_) return Op::kHead;
  if (weight.rows() == 2 * ffn_) return Op::kGateUp;
  if (weight.cols() == ffn_) return Op::kDown;
  if (weight.rows() == qkv_width_) return Op::kQkv;
  if (weight.rows() == hidden_) return Op::kOutput;
  return Op::kOther;
}

void TimedBackend::embed(const Weight& table, std::span<const std::uint32_t> ids, Rows y) {
  timed(Op::kEmbed, [&] { inner_->embed(table, ids, y); });
}
void TimedBackend::rms_norm(Rows x, const float* weight, float eps, Rows y) {
  timed(Op::kOther, [&] { inner_->rms_norm(x, weight, eps, y); });
}
void TimedBackend::linear(const Weight& weight, Rows x, Rows y, kernels::Output output) {
  product(weight, x.count, [&] { inner_->linear(weight, x, y, output); });
}
void TimedBackend::norm_linear(Rows x, const float* norm_weight, float eps, const Weight& weight, Rows y) {
  product(weight, x.count, [&] { inner_->norm_linear(x, norm_weight, eps, weight, y); });
}
void TimedBackend::norm_linear_two_terms(Rows x, const float* norm_weight, float eps, const Weight& weight, Rows y) {
  product(weight, x.count, [&] { inner_->norm_linear_two_terms(x, norm_weight, eps, weight, y); });
}
void TimedBackend::swiglu_linear(Rows gate_up, const Weight& weight, Rows y, kernels::Output output) {
  product(weight, gate_up.count, [&] { inner_->swiglu_linear(gate_up, weight, y, output); });
}
void TimedBackend::swiglu(Rows gate_up, Rows y) {
  timed(Op::kOther, [&] { inner_->swiglu(gate_up, y); });
}
void TimedBackend::add(Rows x, Rows addend) {
  timed(Op::kAdd, [&] { inner_->add(x, addend); });
}
void TimedBackend::rope_append(Rows qkv, std::size_t q_heads, std::span<const SequenceRows> sequences, const kernels::RopeTable& rope,
                               kernels::KvCache& kv, std::size_t layer) {
  timed(Op::kRopeAppend, [&] { inner_->rope_append(qkv, q_heads, sequences, rope, kv, layer); });
}

void TimedBackend::attention(Rows qkv, std::size_t q_heads, std::span<const SequenceRows> sequences, const kernels::KvCache& kv,
                             std::size_t layer, Rows out) {
  timed(Op::kAttention, [&] { inner_->attention(qkv, q_heads, sequences, kv, layer, out); });
  if (!recording_) return;
  OpTotal& total = totals_[static_cast<std::size_t>(Op::kAttention)];
  const kernels::KvShape shape = kv.shape();
  double positions = 0, pairs = 0;
  for (const SequenceRows& s : sequences) {
    const double rows = static_cast<double>(s.rows), last = s.position + rows;
    positions += last;
    pairs += rows * (s.position + (rows + 1) / 2);
  }
  const double block = static_cast<double>(kernels::kv_block_bytes(shape)) / static_cast<double>(shape.layers);
  total.bytes += positions * block / 32;
  total.operations += 4 * pairs * static_cast<double>(q_heads * shape.head_dim);  // scores, and the sum of values
}

void TimedBackend::sample(std::span<const kernels::SampleRequest> requests, std::span<kernels::SampleResult> results) {
  timed(Op::kSample, [&] { inner_->sample(requests, results); });
}
void TimedBackend::encode(Rows x, kernels::WireFormat format, std::span<std::byte> to) {
  timed(Op::kOther, [&] { inner_->encode(x, format, to); });
}
void TimedBackend::encode_carrying(Rows x, Rows loss, kernels::WireFormat format, std::span<std::byte> to) {
  timed(Op::kOther, [&] { inner_->encode_carrying(x, loss, format, to); });
}
void TimedBackend::decode_sum(std::span<const std::span<const std::byte>> parts, kernels::WireFormat format, Rows y,
                              kernels::Output output) {
  timed(Op::kAdd, [&] { inner_->decode_sum(parts, format, y, output); });
}
void TimedBackend::add_bias(Rows x, const float* bias) {
  timed(Op::kOther, [&] { inner_->add_bias(x, bias); });
}

}  // namespace troupe::cluster::bench
