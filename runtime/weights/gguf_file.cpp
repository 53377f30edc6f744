#include "runtime/weights/gguf_file.h"

#include "messages/error_reasons.h"
#include "runtime/base/hash.h"
#include "runtime/weights/gguf_reader.h"
#include "runtime/weights/mapped_file.h"

#include <limits>
#include <mutex>

namespace troupe::weights {

class GgufFile::State {
 public:
  std::filesystem::path path;
  std::shared_ptr<const MappedFile> mapping;
  GgufContent content;
  std::map<std::string_view, std::size_t> by_name;
  mutable std::once_flag hashed;
  mutable Hash128 hash;

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
  auto mapping = MappedFile::open(path);
  if (!mapping) return mapping.error();
  auto content = read_gguf((*mapping)->bytes(), path.string());
  if (!content) return content.error();

  auto state = std::make_unique<State>();
  state->path = path;
  state->mapping = std::move(*mapping);
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
std::size_t GgufFile::size_bytes() const { return state_->mapping->bytes().size(); }

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
  return array_texts(state_->mapping->bytes(), *array);
}

std::optional<std::vector<std::int64_t>> GgufFile::integers(std::string_view key) const {
  const auto* array = state_->value<MetadataArray>(key);
  if (array == nullptr || !is_integer(array->kind)) return std::nullopt;
  return array_integers(state_->mapping->bytes(), *array);
}

const Tensor* GgufFile::find(std::string_view name) const {
  const auto found = state_->by_name.find(name);
  return found == state_->by_name.end() ? nullptr : &state_->content.tensors[found->second];
}

const std::vector<Tensor>& GgufFile::tensors() const { return state_->content.tensors; }

Hash128 GgufFile::content_hash() const {
  std::call_once(state_->hashed, [this] { state_->hash = base::Hasher().add(state_->mapping->bytes()).finish(); });
  return state_->hash;
}

Error GgufFile::bad(std::string_view field, std::string what) const {
  constexpr std::size_t kMetadataStart = 24;  // where a missing key would have to be
  std::size_t offset = kMetadataStart;
  if (const MetadataEntry* entry = state_->entry(field)) offset = entry->offset;
  if (const auto found = state_->by_name.find(field); found != state_->by_name.end())
    offset = state_->content.tensor_offsets[found->second];
  return bad_model_file(state_->path.string(), field, offset, what, ErrorReason::kBadModelFile);
}

}  // namespace troupe::weights
