#include "kernels/cpu/pack.h"

#include "kernels/cpu/channel_scale.h"
#include "kernels/cpu/half.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <stdexcept>
#include <string>

namespace troupe::kernels::cpu {
namespace {

constexpr std::size_t kColumns = kPanelColumns, kStep = 4 * kColumns;  // bytes of 4 inputs of all columns
constexpr std::size_t kNibbles = 4 * kStep, kBytes = 8 * kStep;        // of a group

struct StorageRow {
  StorageType type;
  PanelFormat format;
  std::size_t block, block_bytes;  // inputs, bytes
  std::size_t group_bytes;         // packed bytes of 32 inputs of a panel
};
constexpr StorageRow kStorage[] = {
    {StorageType::kF32, PanelFormat::kF32, 1, 4, 32 * kColumns * 4},
    {StorageType::kF16, PanelFormat::kF16, 1, 2, 32 * kColumns * 2},
    {StorageType::kBF16, PanelFormat::kBF16, 1, 2, 32 * kColumns * 2},
    {StorageType::kQ8_0, PanelFormat::kW8Group32, 32, 34, kBytes + kColumns * 2},
    {StorageType::kQ4_0, PanelFormat::kW4Group32, 32, 18, kNibbles + kColumns * 4},
    {StorageType::kQ4_1, PanelFormat::kW4Group32, 32, 20, kNibbles + kColumns * 4},
    {StorageType::kQ6_K, PanelFormat::kW8Group16, 256, 210, kBytes + kColumns * 8},
};
const StorageRow& storage(StorageType type) {
  for (const auto& row : kStorage)
    if (row.type == type) return row;
  throw std::invalid_argument("pack: unknown storage type");
}

std::size_t row_bytes(const StorageRow& type, std::size_t cols) { return cols / type.block * type.block_bytes; }

template <typename T>
T read(const std::uint8_t* p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}
template <typename T>
void write(std::uint8_t* p, T value) {
  std::memcpy(p, &value, sizeof value);
}

/// Where input k of a column lies in a group's [.][48][4] bytes.
std::size_t quad_offset(std::size_t k, std::size_t column) { return k / 4 * kStep + column * 4 + k % 4; }

/// Where input k of a column lies in a bf16 panel.
std::size_t pair_offset(std::size_t k, std::size_t column) { return (k / 2 * kColumns + column) * 4 + k % 2 * 2; }

void pack_q4(const std::uint8_t* block, bool has_minimum, std::uint8_t* group, std::size_t column) {
  const auto scale = read<std::uint16_t>(block);
  const std::uint8_t* nibbles = block + (has_minimum ? 4 : 2);
  for (std::size_t k = 0; k < 16; k += 4) write(group + quad_offset(k, column), read<std::uint32_t>(nibbles + k));
  write(group + kNibbles + column * 2, scale);
  write(group + kNibbles + (kColumns + column) * 2, has_minimum ? read<std::uint16_t>(block + 2) : minus_eight_times(scale));
}

void pack_q8(const std::uint8_t* block, std::uint8_t* group, std::size_t column) {
  for (std::size_t k = 0; k < 32; k += 4) write(group + quad_offset(k, column), read<std::uint32_t>(block + 2 + k) ^ 0x80808080U);
  write(group + kBytes + column * 2, read<std::uint16_t>(block));
}

/// A block of 256: 128 bytes of low nibbles, 64 of high pairs, 16 scales (int8), fp16 d. Scale of 16 = d * scale, exact in fp32.
void pack_q6(const std::uint8_t* block, std::uint8_t* groups, std::size_t group_bytes, std::size_t column) {
  const float d = half_to_float(read<std::uint16_t>(block + 208));
  const std::uint8_t *low = block, *high = block + 128;
  for (std::size_t k = 0; k < 256; ++k) {
    const std::size_t half = k / 128, within = k % 128, lane = within % 32, quarter = within / 32;
    const unsigned nibble = low[64 * half + 32 * (quarter % 2) + lane] >> (quarter / 2 * 4) & 15U;
    const unsigned pair = high[32 * half + lane] >> (2 * quarter) & 3U;
    groups[k / 32 * group_bytes + quad_offset(k % 32, column)] = static_cast<std::uint8_t>((nibble | pair << 4) + 96U);  // q - 32 + 128
  }
  for (std::size_t part = 0; part < 16; ++part) {
    const float scale = d * static_cast<float>(static_cast<std::int8_t>(block[192 + part]));
    write(groups + part / 2 * group_bytes + kBytes + (part % 2 * kColumns + column) * 4, scale);
  }
}

/// Blocks first ... last - 1 of a row.
void pack_blocks(const StorageRow& type, const std::uint8_t* row, std::size_t first, std::size_t last, std::uint8_t* panel,
                 std::size_t column) {
  for (std::size_t b = first; b < last; ++b) {
    const std::uint8_t* block = row + b * type.block_bytes;
    switch (type.type) {
      case StorageType::kF32: write(panel + (b * kColumns + column) * 4, read<std::uint32_t>(block)); break;
      case StorageType::kF16: write(panel + (b * kColumns + column) * 2, read<std::uint16_t>(block)); break;
      case StorageType::kBF16: write(panel + pair_offset(b, column), read<std::uint16_t>(block)); break;
      case StorageType::kQ8_0: pack_q8(block, panel + b * type.group_bytes, column); break;
      case StorageType::kQ4_0: pack_q4(block, false, panel + b * type.group_bytes, column); break;
      case StorageType::kQ4_1: pack_q4(block, true, panel + b * type.group_bytes, column); break;
      case StorageType::kQ6_K: pack_q6(block, panel + b * 8 * type.group_bytes, type.group_bytes, column); break;
    }
  }
}

/// q * scale + minimum, rounded once: both fit a double exactly.
float nibble_weight(const std::uint8_t* group, std::size_t k, std::size_t column) {
  const unsigned q = group[quad_offset(k % 16, column)] >> (k / 16 * 4) & 15U;
  const double scale = half_to_float(read<std::uint16_t>(group + kNibbles + column * 2));
  const double minimum = half_to_float(read<std::uint16_t>(group + kNibbles + (kColumns + column) * 2));
  return static_cast<float>(q * scale + minimum);
}
float byte_weight(const std::uint8_t* group, std::size_t k, std::size_t column, bool halves) {
  const auto q = static_cast<float>(group[quad_offset(k, column)] - 128);
  if (halves) return q * read<float>(group + kBytes + (k / 16 * kColumns + column) * 4);
  return q * half_to_float(read<std::uint16_t>(group + kBytes + column * 2));
}

/// Inputs first ... last - 1 of a column of a panel.
void unpack_inputs(PanelFormat format, const std::uint8_t* panel, std::size_t first, std::size_t last, std::size_t column, float* to) {
  for (std::size_t k = first; k < last; ++k, ++to) {
    const std::size_t g = k / 32;
    switch (format) {
      case PanelFormat::kF32: *to = read<float>(panel + (k * kColumns + column) * 4); break;
      case PanelFormat::kF16: *to = half_to_float(read<std::uint16_t>(panel + (k * kColumns + column) * 2)); break;
      case PanelFormat::kBF16:
        *to = std::bit_cast<float>(static_cast<std::uint32_t>(read<std::uint16_t>(panel + pair_offset(k, column))) << 16);
        break;
      case PanelFormat::kW4Group32: *to = nibble_weight(panel + g * (kNibbles + kColumns * 4), k % 32, column); break;
      case PanelFormat::kW8Group32: *to = byte_weight(panel + g * (kBytes + kColumns * 2), k % 32, column, false); break;
      case PanelFormat::kW8Group16: *to = byte_weight(panel + g * (kBytes + kColumns * 8), k % 32, column, true); break;
      case PanelFormat::kW8Channel: break;  // unpack_channel: its scale is no matter of a group
    }
  }
}

/// A row of the file as floats, through a panel of few inputs, so that there is one reading of each storage type.
void decode_row(const StorageRow& type, const std::uint8_t* row, std::size_t cols, std::vector<std::uint8_t>& panel, float* to) {
  const std::size_t step = std::max(type.block, std::size_t{kGroup});
  panel.resize(step / 32 * type.group_bytes);
  for (std::size_t k = 0; k < cols; k += step) {
    pack_blocks(type, row + k / type.block * type.block_bytes, 0, step / type.block, panel.data(), 0);
    unpack_inputs(type.format, panel.data(), 0, step, 0, to + k);
  }
}

/// The panel format of a matrix. One scale an output needs whole groups of inputs, which float matrices may lack.
PanelFormat panel_format(const StorageRow& type, std::size_t cols, WeightFormat wanted) {
  return wanted == WeightFormat::kInt8Channel && cols % kGroup == 0 ? PanelFormat::kW8Channel : type.format;
}
std::size_t bytes_of_panel(PanelFormat format, const StorageRow& type, std::size_t cols) {
  if (format == PanelFormat::kBF16) cols = (cols + 1) / 2 * 2;
  const std::size_t bytes = format == PanelFormat::kW8Channel ? (cols + sizeof(float)) * kColumns : (cols * type.group_bytes + 31) / 32;
  return (bytes + 63) / 64 * 64;
}

}  // namespace

bool is_quantized(PanelFormat format) {
  return format == PanelFormat::kW4Group32 || format == PanelFormat::kW8Group32 || format == PanelFormat::kW8Group16 ||
         format == PanelFormat::kW8Channel;
}

PackedWeight::PackedWeight(std::span<const MatrixSource> sources, WeightFormat format, PageArena& arena) {
  plan(sources, format);
  memory_ = arena.allocate(bytes_);
  const std::uint8_t* next = memory_.data;
  for (WeightSegment& segment : segments_) {
    segment.bytes = next;
    next += segment.panels * segment.panel_bytes;
  }
}

bool PackedWeight::fill(std::span<const MatrixSource> sources, ThreadTeam& team) {
  std::size_t buffered = 0;  // bytes of the rows of a panel that are read
  for (const MatrixSource& source : sources) {
    if (source.data == nullptr && !source.read) throw std::invalid_argument("pack: a matrix without data");
    if (source.read) buffered = std::max(buffered, kColumns * row_bytes(storage(source.type), cols_));
  }
  std::vector<std::vector<std::uint8_t>> buffers(team.size(), std::vector<std::uint8_t>(buffered));
  std::atomic<bool> good{true};
  const auto work = [&](const ThreadTeam::Member& member) {
    for (const WeightSegment& segment : segments_)
      for (std::size_t p = member.begin(segment.panels); p < member.end(segment.panels) && good; ++p)
        if (!fill_panel(segment, sources, p, buffers[member.index()])) good = false;
  };
  team.run(work, false);
  return good;
}

bool PackedWeight::adopt(const Backend::PackedReader& read_packed, ThreadTeam& team) {
  constexpr std::size_t kPiece = Backend::kAdoptPiece;
  const std::size_t pieces = (bytes_ + kPiece - 1) / kPiece;
  std::atomic<bool> good{true};
  const auto work = [&](const ThreadTeam::Member& member) {
    for (std::size_t i = member.begin(pieces); i < member.end(pieces) && good; ++i) {
      const std::span<std::uint8_t> to(memory_.data + i * kPiece, std::min(kPiece, bytes_ - i * kPiece));
      if (!read_packed(i * kPiece, std::as_writable_bytes(to))) good = false;
    }
  };
  team.run(work, false);
  return good;
}

void PackedWeight::give_back(PageArena& arena) {
  std::memset(memory_.data, 0, bytes_);
  arena.give_back(std::move(memory_), bytes_);
}

void PackedWeight::plan(std::span<const MatrixSource> sources, WeightFormat wanted) {
  if (sources.empty() || sources.front().cols == 0) throw std::invalid_argument("pack: no inputs");
  cols_ = sources.front().cols;
  for (const MatrixSource& source : sources) {
    const StorageRow& type = storage(source.type);
    if (source.cols != cols_) throw std::invalid_argument("pack: stacked matrices need the same number of inputs");
    if (source.rows == 0) throw std::invalid_argument("pack: an empty matrix");
    if (cols_ % type.block != 0)
      throw std::invalid_argument("pack: " + std::to_string(cols_) + " inputs are not whole blocks of " + std::to_string(type.block));
    const PanelFormat format = panel_format(type, cols_, wanted);
    if (format == PanelFormat::kW8Channel && cols_ > kMaxChannelInputs)
      throw std::invalid_argument("pack: " + std::to_string(cols_) + " inputs are more than one scale a channel takes, " +
                                  std::to_string(kMaxChannelInputs));
    source_first_.push_back(rows_);
    if (segments_.empty() || segments_.back().format != format)
      segments_.push_back({format, rows_, 0, 0, 0, bytes_of_panel(format, type, cols_), nullptr});
    segments_.back().outputs += source.rows;
    rows_ += source.rows;
  }
  for (WeightSegment& segment : segments_) {
    segment.first_panel = panels_;
    segment.panels = (segment.outputs + kColumns - 1) / kColumns;
    panels_ += segment.panels;
    bytes_ += segment.panels * segment.panel_bytes;
  }
}

/// Group by group over the panel's outputs, so that a group's bytes are written while they are in the cache. `rows` is the thread's own.
bool PackedWeight::fill_panel(const WeightSegment& segment, std::span<const MatrixSource> sources, std::size_t panel,
                              std::vector<std::uint8_t>& rows) const {
  std::uint8_t* to = memory_.data + (segment.bytes - memory_.data) + panel * segment.panel_bytes;
  const std::size_t end = std::min(segment.outputs, (panel + 1) * kColumns);
  for (std::size_t i = panel * kColumns; i < end;) {
    const std::size_t output = segment.first_output + i;
    const auto after = std::upper_bound(source_first_.begin(), source_first_.end(), output);
    const auto index = static_cast<std::size_t>(after - source_first_.begin()) - 1;
    const MatrixSource& source = sources[index];
    const StorageRow& type = storage(source.type);
    const std::size_t first = output - source_first_[index], count = std::min(end - i, source.rows - first);
    const std::size_t pitch = row_bytes(type, cols_), blocks = cols_ / type.block,
                      step = std::max<std::size_t>(std::size_t{kGroup} / type.block, 1);
    const auto* from = reinterpret_cast<const std::uint8_t*>(source.data) + first * pitch;
    if (source.read) {
      if (!source.read(first * pitch, std::as_writable_bytes(std::span(rows.data(), count * pitch)))) return false;
      from = rows.data();
    }
    if (segment.format == PanelFormat::kW8Channel) {
      std::vector<float> values(cols_);
      std::vector<std::uint8_t> scratch;
      for (std::size_t row = 0; row < count; ++row) {
        decode_row(type, from + row * pitch, cols_, scratch, values.data());
        quantize_channel(values.data(), cols_, to, i % kColumns + row);
      }
      i += count;
      continue;
    }
    for (std::size_t b = 0; b < blocks; b += step)
      for (std::size_t row = 0; row < count; ++row)
        pack_blocks(type, from + row * pitch, b, std::min(blocks, b + step), to, i % kColumns + row);
    i += count;
  }
  return true;
}

void PackedWeight::unpack_row(std::size_t output, float* to) const {
  const WeightSegment* segment = &segments_.front();
  for (const WeightSegment& s : segments_)
    if (output >= s.first_output) segment = &s;
  const std::size_t i = output - segment->first_output, column = i % kColumns;
  const std::uint8_t* panel = segment->bytes + i / kColumns * segment->panel_bytes;
  if (segment->format == PanelFormat::kW8Channel)
    unpack_channel(panel, cols_, column, to);
  else
    unpack_inputs(segment->format, panel, 0, cols_, column, to);
}

}  // namespace troupe::kernels::cpu
