#include "kernels/cpu/cpu_backend.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <stdexcept>

namespace troupe::kernels::cpu {
namespace {

/// Up to here every thread prepares all rows itself: cheaper than a barrier.
constexpr std::size_t kFewRows = 4;
/// Multiply-adds (or elements, times 64) below which a second thread costs more than it brings.
constexpr std::size_t kSmallWork = 64 * 1024;
constexpr std::size_t kRowsOfShare = 64;

void require(bool condition, const char* what) {
  if (!condition) throw std::invalid_argument(what);
}

const WireCodec& codec_of(const WireKernels& wire, WireFormat format) {
  switch (format) {
    case WireFormat::kFp32: return wire.fp32;
    case WireFormat::kBf16: return wire.bf16;
    case WireFormat::kInt8Group128: return wire.int8_group128;
    case WireFormat::kInt8Group32: return wire.int8_group32;
    case WireFormat::kInt6Group32: return wire.int6_group32;
    case WireFormat::kInt4Group32: return wire.int4_group32;
  }
  throw std::invalid_argument("no such wire format");
}
/// The rows of a message lie on four-byte boundaries, as their scales want it.
bool lies_on_words(const void* p) { return reinterpret_cast<std::uintptr_t>(p) % alignof(float) == 0; }

}  // namespace

void ProductInput::reserve_int8(std::size_t rows, std::size_t cols, bool per_group) {
  const std::size_t groups = cols / kGroup;
  int8_.stride = cols + 64;  // rows a power of two apart would share cache sets
  if (values_.size() < rows * int8_.stride) values_.resize(rows * int8_.stride);
  if (scales_.size() < rows * groups) {
    scales_.resize(rows * groups);
    scaled_sums_.resize(rows * groups);
    half_sums_.resize(2 * rows * groups);
    biases_.resize(rows * groups);
  }
  int8_.values = values_.data();
  int8_.scales = scales_.data();
  int8_.scaled_sums = scaled_sums_.data();
  int8_.half_sums = half_sums_.data();
  int8_.biases = biases_.data();
  int8_.per_group = per_group;
}

void ProductInput::reserve_float(std::size_t rows, std::size_t cols) {
  float_stride_ = (cols + 15) / 16 * 16;
  if (floats_.size() < rows * float_stride_) floats_.resize(rows * float_stride_);
}

void ProductInput::reserve_errors(std::size_t rows) {
  if (errors_.size() < rows * float_stride_) errors_.resize(rows * float_stride_);
}

void ProductInput::reserve_bfloats(std::size_t rows) {
  if (bfloats_.size() < rows * float_stride_) bfloats_.resize(rows * float_stride_);
}

CpuBackend::CpuBackend(const CpuOptions& options, const KernelSet& kernels)
    : kernels_(kernels),
      activations_(options.activations),
      weight_format_(options.weights),
      team_({options.threads, options.pin, options.spin_us}),
      own_inputs_(team_.size()),
      attention_(kernels_.attention, team_, poll_),
      samplers_(team_.size()) {}

std::string CpuBackend::description() const {
  return "cpu " + std::string(isa_name(kernels_.isa)) + ", " + std::to_string(team_.size()) + (team_.size() == 1 ? " thread" : " threads");
}

std::unique_ptr<Weight> CpuBackend::pack(std::span<const MatrixSource> sources) {
  auto weight = std::make_unique<PackedWeight>(sources, weight_format_, weights_);
  if (!weight->fill(sources, team_)) return nullptr;
  return weight;
}
std::string CpuBackend::pack_layout() const {
  return std::string("cpu, panels of 48, ") + (weight_format_ == WeightFormat::kFile ? "" : "int8-channel, ") + "revision " +
         std::to_string(kPackRevision);
}
std::unique_ptr<Weight> CpuBackend::adopt(std::span<const MatrixSource> sources, const PackedReader& read) {
  auto weight = std::make_unique<PackedWeight>(sources, weight_format_, weights_);
  if (weight->adopt(read, team_)) return weight;
  weight->give_back(weights_);
  return nullptr;
}
std::unique_ptr<KvCache> CpuBackend::make_kv_cache(const KvShape& shape) { return std::make_unique<CpuKvCache>(shape); }

/// Calls op(row) for all rows, shared among the team if there is enough to do.
template <typename Op>
void CpuBackend::for_rows(std::size_t rows, std::size_t work_per_row, Op op) {
  const auto share = [&](const ThreadTeam::Member& member) {
    Poll* const poll = poll_of(member);
    for (std::size_t i = member.begin(rows); i < member.end(rows); ++i) {
      op(i);
      if (poll) poll->after_elements(work_per_row);
    }
  };
  if (rows > 1 && rows * work_per_row * 64 > kSmallWork * 4)
    team_.run(share);
  else
    team_.run_alone(share);
}

void CpuBackend::embed(const Weight& table, std::span<const std::uint32_t> ids, Rows y) {
  const auto& packed = static_cast<const PackedWeight&>(table);
  require(y.count == ids.size() && y.width == packed.cols(), "embed: shape of the result");
  for (const std::uint32_t id : ids) require(id < packed.rows(), "embed: token id beyond the vocabulary");
  for_rows(y.count, y.width, [&](std::size_t i) { packed.unpack_row(ids[i], y.row(i)); });
}

void CpuBackend::rms_norm(Rows x, const float* weight, float eps, Rows y) {
  require(x.count == y.count && x.width == y.width, "rms_norm: shape of the result");
  for_rows(x.count, x.width, [&](std::size_t i) { kernels_.rows.rms_norm(x.row(i), weight, static_cast<int>(x.width), eps, y.row(i)); });
}

void CpuBackend::swiglu(Rows gate_up, Rows y) {
  require(gate_up.count == y.count && gate_up.width == 2 * y.width, "swiglu: shape of the result");
  for_rows(y.count, y.width,
           [&](std::size_t i) { kernels_.rows.swiglu(gate_up.row(i), gate_up.row(i) + y.width, static_cast<int>(y.width), y.row(i)); });
}

void CpuBackend::add(Rows x, Rows addend) {
  require(x.count == addend.count && x.width == addend.width, "add: shapes differ");
  for_rows(x.count, x.width, [&](std::size_t i) { kernels_.rows.add(x.row(i), addend.row(i), static_cast<int>(x.width)); });
}

void CpuBackend::add_bias(Rows x, const float* bias) {
  for_rows(x.count, x.width, [&](std::size_t i) { kernels_.rows.add(x.row(i), bias, static_cast<int>(x.width)); });
}

void CpuBackend::encode(Rows x, WireFormat format, std::span<std::byte> to) {
  const WireCodec& codec = codec_of(kernels_.wire, format);
  const std::size_t row_bytes = wire_row_bytes(format, x.width);
  require(to.size() == x.count * row_bytes && lies_on_words(to.data()), "encode: room for the rows");
  auto* bytes = reinterpret_cast<std::uint8_t*>(to.data());
  for_rows(x.count, x.width, [&](std::size_t i) { codec.encode(x.row(i), static_cast<int>(x.width), bytes + i * row_bytes); });
}

// Row by row, so that what one pass leaves in the cache the next one finds there. Plain loops: each value is one addition or subtraction.
void CpuBackend::encode_carrying(Rows x, Rows loss, WireFormat format, std::span<std::byte> to) {
  const WireCodec& codec = codec_of(kernels_.wire, format);
  const std::size_t row_bytes = wire_row_bytes(format, x.width);
  require(loss.count == x.count && loss.width == x.width, "encode_carrying: rows of the loss");
  require(to.size() == x.count * row_bytes && lies_on_words(to.data()), "encode_carrying: room for the rows");
  auto* bytes = reinterpret_cast<std::uint8_t*>(to.data());
  for_rows(x.count, 3 * x.width, [&](std::size_t i) {
    float* const row = x.row(i);
    float* const lost = loss.row(i);
    std::uint8_t* const encoded = bytes + i * row_bytes;
    for (std::size_t j = 0; j < x.width; ++j) row[j] += lost[j];
    codec.encode(row, static_cast<int>(x.width), encoded);
    const std::uint8_t* const part = encoded;
    codec.decode_sum(&part, 1, 0, static_cast<int>(x.width), lost, false);
    for (std::size_t j = 0; j < x.width; ++j) lost[j] = row[j] - lost[j];
  });
}

void CpuBackend::decode_sum(std::span<const std::span<const std::byte>> parts, WireFormat format, Rows y, Output output) {
  const WireCodec& codec = codec_of(kernels_.wire, format);
  const std::size_t row_bytes = wire_row_bytes(format, y.width);
  require(!parts.empty(), "decode_sum: no parts");
  parts_.clear();
  for (const auto part : parts) {
    require(part.size() == y.count * row_bytes && lies_on_words(part.data()), "decode_sum: bytes of a part");
    parts_.push_back(reinterpret_cast<const std::uint8_t*>(part.data()));
  }
  for_rows(y.count, y.width * parts.size(), [&](std::size_t i) {
    codec.decode_sum(parts_.data(), static_cast<int>(parts_.size()), i * row_bytes, static_cast<int>(y.width), y.row(i),
                     output == Output::kAdd);
  });
}

void CpuBackend::linear(const Weight& weight, Rows x, Rows y, Output output) {
  product({Source::Kind::kPlain, x, nullptr, 0, false, output}, weight, y);
}

void CpuBackend::norm_linear(Rows x, const float* norm_weight, float eps, const Weight& weight, Rows y) {
  product({Source::Kind::kNorm, x, norm_weight, eps, false, Output::kStore}, weight, y);
}

void CpuBackend::norm_linear_two_terms(Rows x, const float* norm_weight, float eps, const Weight& weight, Rows y) {
  product({Source::Kind::kNorm, x, norm_weight, eps, has_int8_inputs(), Output::kStore}, weight, y);
}

void CpuBackend::swiglu_linear(Rows gate_up, const Weight& weight, Rows y, Output output) {
  product({Source::Kind::kSwiglu, gate_up, nullptr, 0, false, output}, weight, y);
}

void CpuBackend::product(const Source& source, const Weight& weight, Rows y) {
  const auto& packed = static_cast<const PackedWeight&>(weight);
  const std::size_t rows = source.x.count, cols = packed.cols();
  require(source.x.width == (source.kind == Source::Kind::kSwiglu ? 2 * cols : cols), "linear: width of the input");
  require(y.count == rows && y.width == packed.rows(), "linear: shape of the result");
  if (rows == 0) return;
  bool want_int8 = false, want_float = false;
  for (const WeightSegment& segment : packed.segments()) (uses_int8(segment.format) ? want_int8 : want_float) = true;
  const bool alone = rows * packed.rows() * cols < kSmallWork;
  const bool few = rows <= kFewRows;
  const std::size_t terms = source.two_terms ? 2 : 1;
  const auto reserve = [&](ProductInput& input) {
    if (want_int8) input.reserve_int8(rows * terms, cols, activations_ == Activations::kInt8Group32);
    input.reserve_float(rows, cols);
    if (source.two_terms) input.reserve_errors(rows);
    if (activations_ == Activations::kBf16) input.reserve_bfloats(rows);
  };
  // Here, not on the threads: allocations would meet at one lock.
  if (few)
    for (ProductInput& input : own_inputs_) reserve(input);
  else
    reserve(shared_input_);
  if (want_float && source.output == Output::kAdd && addends_.size() < rows * y.width) addends_.resize(rows * y.width);
  const auto work = [&](const ThreadTeam::Member& member) {
    ProductInput& input = few ? own_inputs_[member.index()] : shared_input_;
    const std::size_t begin = few ? 0 : member.begin(rows), end = few ? rows : member.end(rows);
    Poll* const poll = poll_of(member);
    for (std::size_t i = begin; i < end; ++i) {
      prepare_row(source, i, cols, want_int8, input);
      if (poll) poll->after_elements(cols);
    }
    if (!few) member.barrier();
    multiply(source, packed, input, y, member);
  };
  if (alone)
    team_.run_alone(work);
  else
    team_.run(work);
}

/// A row as fp32 (in place, or where the fused op writes it) and as int8; the second of two terms lies behind the first.
void CpuBackend::prepare_row(const Source& source, std::size_t row, std::size_t cols, bool want_int8, ProductInput& input) const {
  const float* x = source.x.row(row);
  const int n = static_cast<int>(cols);
  if (source.kind != Source::Kind::kPlain) {
    float* to = input.float_row(row);
    if (source.kind == Source::Kind::kNorm)
      kernels_.rows.rms_norm(x, source.norm_weight, n, source.eps, to);
    else
      kernels_.rows.swiglu(x, x + cols, n, to);
    x = to;
  }
  if (activations_ == Activations::kBf16) kernels_.bfloat.round_row(x, n, input.bfloat_row(row));
  if (!want_int8) return;
  const std::size_t terms = source.two_terms ? 2 : 1;
  kernels_.matmul.quantize_row(x, n, input.int8(), row * terms);
  if (!source.two_terms) return;
  float* error = input.error_row(row);
  kernels_.rows.quantization_error(x, n, input.int8(), row * terms, error);
  kernels_.matmul.quantize_row(error, n, input.int8(), row * terms + 1);
}

/// A thread takes neighbouring panels, for all rows; with fewer panels than threads, it takes a range of (64 rows, panel) pairs.
void CpuBackend::multiply(const Source& source, const PackedWeight& weight, ProductInput& input, Rows y, const ThreadTeam::Member& member) {
  const std::size_t panels = weight.panels(), rows = y.count;
  const bool by_panels = panels >= member.count() || rows <= kRowsOfShare;
  const std::size_t shares = by_panels ? 1 : (rows + kRowsOfShare - 1) / kRowsOfShare;
  const std::size_t begin = member.begin(shares * panels), end = member.end(shares * panels);
  for (std::size_t share = 0; share < shares; ++share) {
    const std::size_t row0 = by_panels ? 0 : share * kRowsOfShare, row1 = by_panels ? rows : std::min(rows, row0 + kRowsOfShare);
    for (const WeightSegment& segment : weight.segments()) {
      const std::size_t first = share * panels + segment.first_panel;
      const std::size_t from = std::max(begin, first), to = std::min(end, first + segment.panels);
      if (from >= to) continue;
      if (Poll* const poll = poll_of(member))
        multiply_in_pieces(source, segment, weight.cols(), input, y, row0, row1, from - first, to - first, *poll);
      else
        multiply_segment(source, segment, weight.cols(), input, y, row0, row1, from - first, to - first);
    }
  }
}

/// In the order of the kernels: for each block of rows, all panels.
void CpuBackend::multiply_in_pieces(const Source& source, const WeightSegment& segment, std::size_t cols, ProductInput& input, Rows y,
                                    std::size_t row0, std::size_t row1, std::size_t panel0, std::size_t panel1, Poll& poll) {
  const std::size_t values = kPanelColumns * cols;  // of a panel
  for (std::size_t row = row0; row < row1; row += kRowsOfShare) {
    const std::size_t end = std::min(row1, row + kRowsOfShare);
    const std::size_t panels = std::max<std::size_t>(1, std::min(Poll::kPieceProducts / (end - row), Poll::kPieceValues) / values);
    for (std::size_t panel = panel0; panel < panel1; panel += panels) {
      multiply_segment(source, segment, cols, input, y, row, end, panel, std::min(panel1, panel + panels));
      poll.after_piece();
    }
  }
}

void CpuBackend::multiply_segment(const Source& source, const WeightSegment& segment, std::size_t cols, ProductInput& input, Rows y,
                                  std::size_t row0, std::size_t row1, std::size_t panel0, std::size_t panel1) {
  float* to = y.data + segment.first_output;
  if (uses_int8(segment.format)) {
    Int8Product p{segment.format, segment.bytes, segment.panel_bytes, static_cast<int>(cols / kGroup), segment.outputs, input.int8(), to,
                  y.stride};
    p.terms = source.two_terms ? 2 : 1;
    p.add = source.output == Output::kAdd;
    kernels_.matmul.multiply_int8(p, row0, row1, panel0, panel1);
    return;
  }
  const bool bf16 = activations_ == Activations::kBf16, plain = source.kind == Source::Kind::kPlain && !bf16;
  const bool add = source.output == Output::kAdd;
  float* product = add ? addends_.data() + segment.first_output : to;
  const FloatProduct p{segment.format,
                       segment.bytes,
                       segment.panel_bytes,
                       static_cast<int>(cols),
                       segment.outputs,
                       plain  ? source.x.data
                       : bf16 ? input.bfloat_row(0)
                              : input.float_row(0),
                       plain ? source.x.stride : input.float_stride(),
                       product,
                       add ? y.width : y.stride};
  (bf16 ? kernels_.bfloat.multiply : kernels_.matmul.multiply_float)(p, row0, row1, panel0, panel1);
  const std::size_t column = panel0 * kPanelColumns, end = std::min(segment.outputs, panel1 * kPanelColumns);
  for (std::size_t row = row0; add && row < row1; ++row)
    kernels_.rows.add(to + row * y.stride + column, product + row * y.width + column, static_cast<int>(end - column));
}

void CpuBackend::rope_append(Rows qkv, std::size_t q_heads, std::span<const SequenceRows> sequences, const RopeTable& rope, KvCache& kv,
                             std::size_t layer) {
  auto& cache = static_cast<CpuKvCache&>(kv);
  const KvShape& shape = cache.shape();
  const std::size_t dim = shape.head_dim, kv_heads = shape.kv_heads;
  const std::size_t block = dim & (~dim + 1);  // the largest power of two in it
  require(qkv.width == (q_heads + 2 * kv_heads) * dim, "rope_append: width of a row");
  require(rope.half * 2 == dim, "rope_append: the table is for another head size");
  require(layer < shape.layers, "rope_append: no such layer");
  const auto store = shape.format == KvFormat::kInt8   ? kernels_.attention.store_int8
                     : shape.format == KvFormat::kFp16 ? kernels_.attention.store_f16
                                                       : kernels_.attention.store_f32;
  const std::size_t positions = rope.cos.size() / rope.half;
  for (const SequenceRows& s : sequences) {
    require(s.first_row + s.rows <= qkv.count, "rope_append: rows beyond the batch");
    require(s.position + s.rows <= positions, "rope_append: position beyond the table");
    for (std::size_t b = s.position / kBlockTokens; s.rows > 0 && b <= (s.position + s.rows - 1) / kBlockTokens; ++b)
      require(s.blocks[b] < shape.blocks, "rope_append: no such block");
  }
  const auto do_row = [&](const SequenceRows& s, std::size_t i) {
    float* row = qkv.row(s.first_row + i);
    const std::size_t position = s.position + i;
    const float *cosine = &rope.cos[position * rope.half], *sine = &rope.sin[position * rope.half];
    for (std::size_t h = 0; h < q_heads + kv_heads; ++h)
      kernels_.rows.rope(row + h * dim, cosine, sine, static_cast<int>(rope.half), rope.pairs == RopePairs::kAdjacent);
    // The factor of K undoes both transforms; a power of two, it costs no bit.
    for (std::size_t h = 0; shape.spread_heads && h < q_heads + kv_heads; ++h)
      kernels_.rows.spread(row + h * dim, static_cast<int>(dim), static_cast<int>(block),
                           h < q_heads ? 1.0F : 1.0F / static_cast<float>(block));
    std::uint8_t* slab = cache.slab(layer, s.blocks[position / kBlockTokens]);
    const float *k = row + q_heads * dim, *v = k + kv_heads * dim;
    for (std::size_t h = 0; h < kv_heads; ++h)
      store(slab + h * cache.head_bytes(), static_cast<int>(dim), static_cast<int>(position % kBlockTokens), k + h * dim, v + h * dim);
  };
  std::size_t rows = 0;
  for (const SequenceRows& s : sequences) rows += s.rows;
  const auto work = [&](const ThreadTeam::Member& member) {
    Poll* const poll = poll_of(member);
    std::size_t before = 0;  // rows of the sequences so far
    for (const SequenceRows& s : sequences) {
      const std::size_t from = std::max(member.begin(rows), before), to = std::min(member.end(rows), before + s.rows);
      for (std::size_t i = from; i < to; ++i) {
        do_row(s, i - before);
        if (poll) poll->after_elements(qkv.width);
      }
      before += s.rows;
    }
  };
  if (rows > 2)
    team_.run(work);
  else
    team_.run_alone(work);
}

void CpuBackend::attention(Rows qkv, std::size_t q_heads, std::span<const SequenceRows> sequences, const KvCache& kv, std::size_t layer,
                           Rows out) {
  attention_.run(qkv, q_heads, sequences, static_cast<const CpuKvCache&>(kv), layer, out);
}

void CpuBackend::sample(std::span<const SampleRequest> requests, std::span<SampleResult> results) {
  require(requests.size() == results.size(), "sample: one result a request");
  for (const SampleRequest& r : requests) {
    require(r.width > 0 && r.width < (std::size_t{1} << 30) && r.logits != nullptr, "sample: no logits");
    require(r.score == 0xffffffff || r.score < r.width, "sample: the id to score is beyond the row");
  }
  // Nothing may grow inside the team: a failed allocation there would end the process.
  for (std::size_t i = 0; i < requests.size(); ++i) {
    for (Sampler& sampler : samplers_) sampler.reserve(requests[i]);
    results[i].top_ids.reserve(requests[i].top_logprobs);
    results[i].top_logprobs.reserve(requests[i].top_logprobs);
  }
  std::atomic<std::size_t> next{0};
  const auto work = [&](const ThreadTeam::Member& member) {
    for (std::size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < requests.size();)
      samplers_[member.index()].sample(kernels_.logits, requests[i], results[i]);
  };
  if (requests.size() > 1)
    team_.run(work);
  else
    team_.run_alone(work);
}

}  // namespace troupe::kernels::cpu

namespace troupe::kernels {

std::unique_ptr<Backend> make_cpu_backend(const CpuOptions& options) {
  return std::make_unique<cpu::CpuBackend>(options, cpu::kernels_for(cpu::choose_isa(options.isa)));
}

std::vector<std::string> cpu_isa_levels() {
  std::vector<std::string> names;
  for (const cpu::Isa isa : cpu::available_isas()) names.emplace_back(cpu::isa_name(isa));
  return names;
}

}  // namespace troupe::kernels
