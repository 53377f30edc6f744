// Packing of a model file's matrices into panels of 48 outputs, one layout for all instruction sets.
// A panel runs from the first input to the last, one stream. Per group of 32 inputs:
//   w4_group32  [4][48][4] bytes: low nibble = input 4i + j, high = 16 + 4i + j; 48 fp16 scales; 48 fp16 minima   (Q4_1, Q4_0)
//   w8_group32  [8][48][4] u8 = q + 128; 48 fp16 scales                                                            (Q8_0)
//   w8_group16  [8][48][4] u8 = q + 128; 2 x 48 fp32 scales                                                        (Q6_K)
//   w8_channel  [8][48][4] u8 = q + 128; behind the last group 48 fp32 scales                (WeightFormat::kInt8Channel)
// Floats are [inputs][48] of their own type, but bf16 are [inputs / 2][48][2], a zero behind an odd number of inputs. Outputs are padded
// to 48 with zeros. Only w8_channel rounds weights again.
// Owner of the bytes: the Weight, through its piece of an arena. Immutable after packing; read by all threads of the team.
#pragma once
#include "kernels/backend.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/page_buffer.h"
#include "kernels/cpu/thread_team.h"

#include <functional>
#include <span>
#include <vector>

namespace troupe::kernels::cpu {

/// Neighbouring outputs of one format; each segment starts a new panel.
struct WeightSegment {
  PanelFormat format = PanelFormat::kF32;
  std::size_t first_output = 0, outputs = 0;
  std::size_t first_panel = 0, panels = 0;  // among those of the whole weight
  std::size_t panel_bytes = 0;
  const std::uint8_t* bytes = nullptr;
};

/// Of the layouts above. Raise it with every change of a packed byte: packed weights are kept on disk (a test compares checksums).
constexpr unsigned kPackRevision = 2;

class PackedWeight final : public Weight {
 public:
  /// Memory, zeroed. Throws std::invalid_argument if the sources have no or different numbers of inputs, or a number that their type
  /// cannot hold (quantized types: whole blocks of 32, Q6_K of 256; one scale a channel: 65536 at most).
  PackedWeight(std::span<const MatrixSource> sources, WeightFormat format, PageArena& arena);
  /// Packs, once. False: a source could not be read. Throws std::invalid_argument if a source has neither data nor reader.
  bool fill(std::span<const MatrixSource> sources, ThreadTeam& team);
  /// Instead: the bytes of an earlier fill. False: `read` failed.
  bool adopt(const Backend::PackedReader& read, ThreadTeam& team);
  /// After a failed adopt: the memory goes to the next weight.
  void give_back(PageArena& arena);

  std::span<const std::byte> packed() const override { return std::as_bytes(std::span(memory_.data, bytes_)); }
  std::span<const WeightSegment> segments() const { return segments_; }
  std::size_t panels() const { return panels_; }
  /// Row `output` as floats: q * scale (+ minimum), rounded once. `to` holds cols() floats.
  void unpack_row(std::size_t output, float* to) const;

 private:
  void plan(std::span<const MatrixSource> sources, WeightFormat format);
  bool fill_panel(const WeightSegment& segment, std::span<const MatrixSource> sources, std::size_t panel,
                  std::vector<std::uint8_t>& rows) const;

  std::vector<WeightSegment> segments_;
  std::vector<std::size_t> source_first_;  // first output of each source
  std::size_t panels_ = 0;
  PageArena::Piece memory_;
};

bool is_quantized(PanelFormat format);

}  // namespace troupe::kernels::cpu
