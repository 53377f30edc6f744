// What is the same for all backends: composed defaults of fused ops, the size of KV blocks, the RoPE table.
#include "kernels/backend.h"

#include "kernels/fixed_math.h"

#include <stdexcept>

namespace troupe::kernels {

std::size_t kv_block_bytes(const KvShape& shape) {
  constexpr std::size_t kTokens = 32;
  std::size_t head = 0;
  switch (shape.format) {
    case KvFormat::kInt8: head = 2 * kTokens * (shape.head_dim + sizeof(float)); break;
    case KvFormat::kFp16: head = 2 * kTokens * shape.head_dim * 2; break;
    case KvFormat::kFp32: head = 2 * kTokens * shape.head_dim * 4; break;
  }
  return shape.layers * shape.kv_heads * head;
}

std::size_t wire_row_bytes(WireFormat format, std::size_t width) {
  const auto groups = [width](std::size_t size) { return (width + size - 1) / size; };
  std::size_t bytes = 0;
  switch (format) {
    case WireFormat::kFp32: bytes = 4 * width; break;
    case WireFormat::kBf16: bytes = 2 * width; break;
    case WireFormat::kInt8Group128: bytes = width + 4 * groups(128); break;
    case WireFormat::kInt8Group32: bytes = width + 4 * groups(32); break;
    case WireFormat::kInt6Group32: bytes = (width * 6 + 7) / 8 + 4 * groups(32); break;
    case WireFormat::kInt4Group32: bytes = (width + 1) / 2 + 4 * groups(32); break;
  }
  return (bytes + 3) / 4 * 4;
}

RopeTable make_rope_table(std::size_t head_dim, double freq_base, std::size_t positions) {
  if (head_dim == 0 || head_dim % 2) throw std::invalid_argument("rope: head size must be even and positive");
  if (!(freq_base >= 1.0 && freq_base <= 1e15)) throw std::invalid_argument("rope: frequency base must be in 1...1e15");
  if (positions > 1'600'000) throw std::invalid_argument("rope: at most 1600000 positions");
  RopeTable table;
  table.half = head_dim / 2;
  table.cos.resize(positions * table.half);
  table.sin.resize(positions * table.half);
  const double log_base = fixed_log(freq_base);
  for (std::size_t i = 0; i < table.half; ++i) {
    const double frequency = fixed_exp(-(2.0 * static_cast<double>(i) / static_cast<double>(head_dim)) * log_base);
    for (std::size_t p = 0; p < positions; ++p) {
      double sine = 0, cosine = 0;
      fixed_sin_cos(static_cast<double>(p) * frequency, sine, cosine);
      table.cos[p * table.half + i] = static_cast<float>(cosine);
      table.sin[p * table.half + i] = static_cast<float>(sine);
    }
  }
  return table;
}

void Backend::norm_linear(Rows x, const float* norm_weight, float eps, const Weight& weight, Rows y) {
  scratch_.resize(x.count * x.width);
  const Rows normed{scratch_.data(), x.count, x.width, x.width};
  rms_norm(x, norm_weight, eps, normed);
  linear(weight, normed, y);
}

void Backend::norm_linear_two_terms(Rows x, const float* norm_weight, float eps, const Weight& weight, Rows y) {
  norm_linear(x, norm_weight, eps, weight, y);
}

void Backend::swiglu_linear(Rows gate_up, const Weight& weight, Rows y, Output output) {
  const std::size_t width = gate_up.width / 2;
  scratch_.resize(gate_up.count * width);
  const Rows gated{scratch_.data(), gate_up.count, width, width};
  swiglu(gate_up, gated);
  linear(weight, gated, y, output);
}

void Backend::encode(Rows, WireFormat, std::span<std::byte>) { throw std::logic_error("this backend has no wire formats"); }
void Backend::encode_carrying(Rows, Rows, WireFormat, std::span<std::byte>) { throw std::logic_error("this backend has no wire formats"); }
void Backend::decode_sum(std::span<const std::span<const std::byte>>, WireFormat, Rows, Output) {
  throw std::logic_error("this backend has no wire formats");
}
void Backend::add_bias(Rows, const float*) { throw std::logic_error("this backend adds no bias"); }
void Backend::set_poll(std::function<void()>) {}

}  // namespace troupe::kernels
