#include "runtime/weights/gguf_file.h"

#include "messages/error_reasons.h"
#include "runtime/weights/gguf_reader.h"

#include <algorithm>

namespace troupe::weights {
namespace {

constexpr std::uint64_t kFirstHead = 4U << 20, kLargestHead = 1U << 30;

/// Reads as much of the head as the metadata and the tensor table take.
Result<GgufContent> read_head(const DiskFile& file, const std::string& name, std::vector<std::byte>& head) {
  for (std::uint64_t wanted = kFirstHead;; wanted *= 4) {
    const std::size_t have = head.size();
    head.resize(static_cast<std::size_t>(std::min({wanted, kLargestHead, file.size()})));
    if (!file.read(have, std::span(head).subspan(have))) return file.unreadable("it was cut or replaced while it was read");
    bool ran_out = false;
    auto content = read_gguf(head, file.size(), name, &ran_out);
    if (content || !ran_out || head.size() == file.size()) return content;
    if (head.size() == kLargestHead)
      return bad_model_file(name, "metadata", 0, "do not end within the limit of " + std::to_string(kLargestHead) + " bytes",
                            ErrorReason::kBadModelFile);
  }
}

}  // namespace

class GgufFile::State {
 public:
  std::filesystem::path path;
  std::unique_ptr<const DiskFile> file;
  std::vector<std::byte> head;
  GgufContent content;  // views into the head
  std::map<std::string_view, std::size_t> by_name;

  const MetadataEntry* entry(std::string_view key) const {
    const auto found = content.metadata.find(key);
    return found == content.metadata.end() ? nullptr : &found->second;
  }
  template <class T>
  const T* value(std::string_view key) const {
    const MetadataEntry* found = entry(key);
    return found == nullptr ? nullptr : std::get_if<T>(&found->value);
  }
};

Result<std::shared_ptr<const GgufFile>> GgufFile::open(const std::filesystem::path& path) {
  auto opened = DiskFile::open(path);
  if (!opened) return opened.error();
  auto state = std::make_unique<State>();
  state->path = path;
  state->file = std::move(*opened);
  auto content = read_head(*state->file, path.string(), state->head);
  if (!content) return content.error();
  state->content = std::move(*content);
  for (std::size_t i = 0; i < state->content.tensors.size(); ++i) state->by_name.emplace(state->content.tensors[i].name, i);
  std::shared_ptr<const GgufFile> file(new GgufFile(std::move(state)));
  if (const auto parts = file->unsigned_integer("split.count"); parts && *parts > 1) {
    Error error = file->bad("split.count", "the model is cut into " + std::to_string(*parts) + " files; merge them into one");
    error.reason = ErrorReason::kUnsupportedModel;
    return error;
  }
  return file;
}

GgufFile::GgufFile(std::unique_ptr<State> state) : state_(std::move(state)) {}
GgufFile::~GgufFile() = default;

const std::filesystem::path& GgufFile::path() const { return state_->path; }
std::size_t GgufFile::size_bytes() const { return state_->file->size(); }

std::optional<std::string> GgufFile::text(std::string_view key) const {
  const auto* value = state_->value<std::string_view>(key);
  return value == nullptr ? std::nullopt : std::optional(std::string(*value));
}

std::optional<std::uint64_t> GgufFile::unsigned_integer(std::string_view key) const {
  if (const auto* value = state_->value<std::uint64_t>(key)) return *value;
  if (const auto* value = state_->value<std::int64_t>(key); value != nullptr && *value >= 0) return static_cast<std::uint64_t>(*value);
  return std::nullopt;
}

std::optional<double> GgufFile::real(std::string_view key) const {
  const auto* value = state_->value<double>(key);
  return value == nullptr ? std::nullopt : std::optional(*value);
}

std::optional<bool> GgufFile::boolean(std::string_view key) const {
  const auto* value = state_->value<bool>(key);
  return value == nullptr ? std::nullopt : std::optional(*value);
}

std::optional<std::vector<std::string>> GgufFile::texts(std::string_view key) const {
  const auto* array = state_->value<MetadataArray>(key);
  if (array == nullptr || array->kind != GgufKind::kString) return std::nullopt;
  return array_texts(state_->head, *array);
}

std::optional<std::vector<std::int64_t>> GgufFile::integers(std::string_view key) const {
  const auto* array = state_->value<MetadataArray>(key);
  if (array == nullptr || !is_integer(array->kind)) return std::nullopt;
  return array_integers(state_->head, *array);
}

const Tensor* GgufFile::find(std::string_view name) const {
  const auto found = state_->by_name.find(name);
  return found == state_->by_name.end() ? nullptr : &state_->content.tensors[found->second];
}

const std::vector<Tensor>& GgufFile::tensors() const { return state_->content.tensors; }

bool GgufFile::read(const Tensor& tensor, std::size_t offset, std::span<std::byte> to) const {
  if (offset > tensor.bytes || to.size() > tensor.bytes - offset) return false;
  return state_->file->read(tensor.offset + offset, to);
}

kernels::MatrixSource GgufFile::matrix(const Tensor& tensor) const {
  return {tensor.type, nullptr, tensor.rows(), tensor.cols(),
          [this, &tensor](std::size_t offset, std::span<std::byte> to) { return read(tensor, offset, to); }};
}

const DiskFile& GgufFile::disk_file() const { return *state_->file; }

Error GgufFile::bad(std::string_view field, std::string what) const {
  constexpr std::size_t kMetadataStart = 24;  // where a missing key would have to be
  std::size_t offset = kMetadataStart;
  if (const MetadataEntry* entry = state_->entry(field)) offset = entry->offset;
  if (const auto found = state_->by_name.find(field); found != state_->by_name.end())
    offset = state_->content.tensor_offsets[found->second];
  return bad_model_file(state_->path.string(), field, offset, what, ErrorReason::kBadModelFile);
}

}  // namespace troupe::weights
