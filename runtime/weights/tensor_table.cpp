#include "runtime/weights/tensor_table.h"

#include "messages/error_reasons.h"
#include "runtime/weights/format_table.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <unordered_set>

namespace troupe::weights {
namespace {

constexpr std::uint64_t kNameLimit = 255;                        // ggml itself allows 63
constexpr std::uint64_t kElementLimit = std::uint64_t{1} << 48;  // of one tensor; keeps all sizes far from overflow

/// What the table says about one tensor, before the place of the data is known.
struct Description {
  std::size_t start = 0;          // of the description in the file
  std::size_t data_field = 0;     // where the data offset is written
  std::uint64_t data_offset = 0;  // from the beginning of the data section
};

bool read_shape(GgufCursor& cursor, const std::string& field, Tensor& tensor, std::uint64_t& elements) {
  const std::size_t start = cursor.offset();
  std::uint32_t dimensions = 0;
  if (!cursor.number(dimensions, field)) return false;
  if (dimensions < 1 || dimensions > 4)
    return cursor.fail(field, start, std::to_string(dimensions) + " dimensions (1 to 4 are possible)", ErrorReason::kBadModelFile);
  elements = 1;
  for (std::uint32_t i = 0; i < dimensions; ++i) {
    const std::size_t extent_offset = cursor.offset();
    std::uint64_t extent = 0;
    if (!cursor.number(extent, field)) return false;
    if (extent == 0 || extent > kElementLimit / elements)
      return cursor.fail(field, extent_offset,
                         "extent " + std::to_string(extent) + " of dimension " + std::to_string(i) + " is out of range",
                         ErrorReason::kBadModelFile);
    elements *= extent;
    tensor.shape.push_back(extent);
  }
  return true;
}

bool read_format(GgufCursor& cursor, const std::string& field, Tensor& tensor, std::uint64_t elements) {
  const std::size_t start = cursor.offset();
  std::uint32_t type = 0;
  if (!cursor.number(type, field)) return false;
  const Format* format = find_format(type);
  if (format == nullptr) {
    std::string supported;
    for (const Format& row : formats()) supported += (supported.empty() ? "" : ", ") + std::string(row.name);
    return cursor.fail(
        field, start,
        "storage type " + std::string(gguf_type_name(type)) + " (" + std::to_string(type) + ") is not supported; these are: " + supported,
        ErrorReason::kUnsupportedModel);
  }
  if (tensor.shape[0] % format->block_elements != 0)
    return cursor.fail(field, start,
                       "rows of " + std::to_string(tensor.shape[0]) + " elements are not whole " + std::string(format->name) +
                           " blocks of " + std::to_string(format->block_elements),
                       ErrorReason::kBadModelFile);
  tensor.type = format->type;
  tensor.bytes = format->bytes_of(elements);
  return true;
}

bool read_description(GgufCursor& cursor, std::uint64_t index, Tensor& tensor, Description& description) {
  description.start = cursor.offset();
  std::string_view name;
  std::string field = "tensor " + std::to_string(index);
  if (!cursor.text(name, field + " name", kNameLimit)) return false;
  if (name.empty()) return cursor.fail(field + " name", description.start, "the name is empty", ErrorReason::kBadModelFile);
  tensor.name = name;
  field = "tensor '" + tensor.name + "'";
  std::uint64_t elements = 0;
  if (!read_shape(cursor, field + " shape", tensor, elements)) return false;
  if (!read_format(cursor, field + " type", tensor, elements)) return false;
  description.data_field = cursor.offset();
  return cursor.number(description.data_offset, field + " data offset");
}

bool place_data(GgufCursor& cursor, const Description& description, std::uint64_t data_start, std::uint64_t alignment, Tensor& tensor) {
  const std::string field = "tensor '" + tensor.name + "' data offset";
  if (description.data_offset % alignment != 0)
    return cursor.fail(field, description.data_field,
                       std::to_string(description.data_offset) + " is not a multiple of the alignment " + std::to_string(alignment),
                       ErrorReason::kBadModelFile);
  const std::uint64_t available = data_start <= cursor.size() ? cursor.size() - data_start : 0;
  if (description.data_offset > available || tensor.bytes > available - description.data_offset)
    return cursor.fail(field, description.data_field,
                       "its " + std::to_string(tensor.bytes) + " bytes at data offset " + std::to_string(description.data_offset) +
                           " end outside the file of " + std::to_string(cursor.size()) + " bytes (truncated?)",
                       ErrorReason::kBadModelFile);
  tensor.offset = data_start + description.data_offset;
  return true;
}

bool check_overlap(GgufCursor& cursor, const GgufContent& content, const std::vector<Description>& descriptions) {
  std::vector<std::size_t> order(content.tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return content.tensors[a].offset < content.tensors[b].offset; });
  for (std::size_t i = 1; i < order.size(); ++i) {
    const Tensor& before = content.tensors[order[i - 1]];
    const Tensor& tensor = content.tensors[order[i]];
    if (before.offset + before.bytes > tensor.offset)
      return cursor.fail("tensor '" + tensor.name + "' data offset", descriptions[order[i]].data_field,
                         "its data overlaps that of another tensor", ErrorReason::kBadModelFile);
  }
  return true;
}

}  // namespace

bool read_tensor_table(GgufCursor& cursor, std::uint64_t count, std::uint64_t alignment, GgufContent& content) {
  std::vector<Description> descriptions;
  std::unordered_set<std::string> names;
  for (std::uint64_t i = 0; i < count; ++i) {  // grows with what was read, not with the count
    Tensor tensor;
    Description description;
    if (!read_description(cursor, i, tensor, description)) return false;
    if (!names.insert(tensor.name).second)
      return cursor.fail("tensor '" + tensor.name + "' name", description.start, "the name occurs twice", ErrorReason::kBadModelFile);
    content.tensors.push_back(std::move(tensor));
    content.tensor_offsets.push_back(description.start);
    descriptions.push_back(description);
  }
  const std::uint64_t data_start = (cursor.offset() + alignment - 1) / alignment * alignment;
  for (std::size_t i = 0; i < descriptions.size(); ++i)
    if (!place_data(cursor, descriptions[i], data_start, alignment, content.tensors[i])) return false;
  return check_overlap(cursor, content, descriptions);
}

}  // namespace troupe::weights
