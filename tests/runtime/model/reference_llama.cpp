#include "tests/runtime/model/reference_llama.h"

#include "runtime/weights/format_table.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace troupe::test {
namespace {

using Vector = std::vector<double>;

struct Matrix {
  std::size_t rows = 0, cols = 0;
  std::vector<float> values;
  Vector times(const Vector& x) const {
    Vector y(rows, 0.0);
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t c = 0; c < cols; ++c) y[r] += static_cast<double>(values[r * cols + c]) * x[c];
    return y;
  }
};

Matrix read(const weights::GgufFile& file, const std::string& name) {
  const weights::Tensor* tensor = file.find(name);
  if (tensor == nullptr) throw std::runtime_error("no tensor " + name);
  const kernels::MatrixSource source = file.matrix(*tensor);
  const weights::Format& format = weights::format_of(source.type);
  Matrix matrix{source.rows, source.cols, std::vector<float>(source.rows * source.cols)};
  std::vector<std::byte> stored(tensor->bytes);
  if (!file.read(*tensor, 0, stored)) throw std::runtime_error("cannot read " + name);
  format.dequantize(stored.data(), source.rows * source.cols / format.block_elements, matrix.values.data());
  return matrix;
}

Vector norm(const Vector& x, const Matrix& weight, double eps) {
  double sum = 0;
  for (const double v : x) sum += v * v;
  const double scale = 1 / std::sqrt(sum / static_cast<double>(x.size()) + eps);
  Vector y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = x[i] * scale * static_cast<double>(weight.values[i]);
  return y;
}

/// Neighbours (2i, 2i + 1) turn together: the order in which "llama" files store q and k.
void rotate(double* head, std::size_t dim, double base, std::size_t position) {
  for (std::size_t i = 0; i < dim / 2; ++i) {
    const double angle = static_cast<double>(position) * std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(dim));
    const double a = head[2 * i], b = head[2 * i + 1];
    head[2 * i] = a * std::cos(angle) - b * std::sin(angle);
    head[2 * i + 1] = a * std::sin(angle) + b * std::cos(angle);
  }
}

void add(Vector& x, const Vector& y) {
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
}

Vector attend(const Vector& q, const std::vector<Vector>& keys, const std::vector<Vector>& values, const model::ModelConfig& config) {
  const std::size_t dim = config.head_dim, group = config.q_heads / config.kv_heads;
  Vector out(q.size(), 0.0);
  for (std::size_t head = 0; head < config.q_heads; ++head) {
    const std::size_t kv = head / group * dim;
    Vector scores(keys.size());
    double best = -1e300, sum = 0;
    for (std::size_t t = 0; t < keys.size(); ++t) {
      double dot = 0;
      for (std::size_t d = 0; d < dim; ++d) dot += q[head * dim + d] * keys[t][kv + d];
      scores[t] = dot / std::sqrt(static_cast<double>(dim));
      best = std::max(best, scores[t]);
    }
    for (double& score : scores) sum += score = std::exp(score - best);
    for (std::size_t t = 0; t < keys.size(); ++t)
      for (std::size_t d = 0; d < dim; ++d) out[head * dim + d] += scores[t] / sum * values[t][kv + d];
  }
  return out;
}

/// A product of the file: W x + b, with b zero where the file has none.
struct Linear {
  Matrix weight, bias;
  Linear(const weights::GgufFile& file, const std::string& name) : weight(read(file, name + ".weight")) {
    if (file.find(name + ".bias") != nullptr) bias = read(file, name + ".bias");
  }
  Vector of(const Vector& x) const {
    Vector y = weight.times(x);
    for (std::size_t i = 0; i < bias.values.size(); ++i) y[i] += static_cast<double>(bias.values[i]);
    return y;
  }
};

Vector mlp(const weights::GgufFile& file, const std::string& prefix, const Vector& x) {
  const Vector gate = Linear(file, prefix + "ffn_gate").of(x);
  Vector up = Linear(file, prefix + "ffn_up").of(x);
  for (std::size_t i = 0; i < up.size(); ++i) up[i] *= gate[i] / (1 + std::exp(-gate[i]));
  return Linear(file, prefix + "ffn_down").of(up);
}

}  // namespace

std::vector<double> reference_logits(const weights::GgufFile& file, const model::ModelConfig& config, const std::vector<TokenId>& tokens) {
  const Matrix embeddings = read(file, "token_embd.weight");
  std::vector<Vector> hidden;
  for (const TokenId token : tokens) {
    const float* row = embeddings.values.data() + token * embeddings.cols;
    hidden.emplace_back(row, row + embeddings.cols);
  }
  const double eps = static_cast<double>(config.norm_eps);
  for (std::size_t layer = 0; layer < config.layers; ++layer) {
    const std::string prefix = "blk." + std::to_string(layer) + ".";
    const Matrix attention_norm = read(file, prefix + "attn_norm.weight"), mlp_norm = read(file, prefix + "ffn_norm.weight");
    const Linear q_of(file, prefix + "attn_q"), k_of(file, prefix + "attn_k"), v_of(file, prefix + "attn_v");
    const Linear output(file, prefix + "attn_output");
    std::vector<Vector> keys, values;
    for (std::size_t t = 0; t < tokens.size(); ++t) {
      const Vector x = norm(hidden[t], attention_norm, eps);
      Vector q = q_of.of(x);
      keys.push_back(k_of.of(x));
      values.push_back(v_of.of(x));
      for (std::size_t head = 0; head < config.q_heads; ++head)
        rotate(q.data() + head * config.head_dim, config.head_dim, config.rope_base, t);
      for (std::size_t head = 0; head < config.kv_heads; ++head)
        rotate(keys.back().data() + head * config.head_dim, config.head_dim, config.rope_base, t);
      add(hidden[t], output.of(attend(q, keys, values, config)));
      add(hidden[t], mlp(file, prefix, norm(hidden[t], mlp_norm, eps)));
    }
  }
  const Vector last = norm(hidden.back(), read(file, "output_norm.weight"), eps);
  return config.tied_embeddings ? embeddings.times(last) : read(file, "output.weight").times(last);
}

}  // namespace troupe::test
