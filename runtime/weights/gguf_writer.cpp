// See gguf_writer.h.
#include "runtime/weights/gguf_writer.h"

#include "messages/error_reasons.h"

#include <fstream>
#include <sstream>

namespace troupe::weights {
namespace {
constexpr std::size_t kAlignment = 32;
constexpr std::uint32_t kUint32 = 4, kInt32 = 5, kFloat32 = 6, kBool = 7, kString = 8, kArray = 9;

template <class T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(T));
}
void put_text(std::string& out, std::string_view text) {
  put<std::uint64_t>(out, text.size());
  out += text;
}
std::string padding(std::uint64_t size) { return std::string((kAlignment - size % kAlignment) % kAlignment, '\0'); }
}  // namespace

GgufWriter& GgufWriter::entry(std::string_view key, std::uint32_t kind) {
  ++entries_;
  put_text(metadata_, key);
  put(metadata_, kind);
  return *this;
}
GgufWriter& GgufWriter::unsigned_integer(std::string_view key, std::uint32_t value) {
  entry(key, kUint32);
  put(metadata_, value);
  return *this;
}
GgufWriter& GgufWriter::real(std::string_view key, float value) {
  entry(key, kFloat32);
  put(metadata_, value);
  return *this;
}
GgufWriter& GgufWriter::boolean(std::string_view key, bool value) {
  entry(key, kBool);
  put<std::uint8_t>(metadata_, value ? 1 : 0);
  return *this;
}
GgufWriter& GgufWriter::text(std::string_view key, std::string_view value) {
  entry(key, kString);
  put_text(metadata_, value);
  return *this;
}
GgufWriter& GgufWriter::texts(std::string_view key, std::span<const std::string> values) {
  entry(key, kArray);
  put(metadata_, kString);
  put<std::uint64_t>(metadata_, values.size());
  for (const std::string& value : values) put_text(metadata_, value);
  return *this;
}
GgufWriter& GgufWriter::integers(std::string_view key, std::span<const std::int32_t> values) {
  entry(key, kArray);
  put(metadata_, kInt32);
  put<std::uint64_t>(metadata_, values.size());
  for (const std::int32_t value : values) put(metadata_, value);
  return *this;
}
GgufWriter& GgufWriter::raw_tensor(std::string_view name, std::vector<std::uint64_t> shape, std::uint32_t gguf_type, std::string bytes) {
  const std::uint64_t size = bytes.size();
  return made_tensor(name, std::move(shape), gguf_type, size, [bytes = std::move(bytes)] { return bytes; });
}
GgufWriter& GgufWriter::made_tensor(std::string_view name, std::vector<std::uint64_t> shape, std::uint32_t gguf_type, std::uint64_t size,
                                    std::function<std::string()> make) {
  tensors_.push_back({std::string(name), std::move(shape), gguf_type, size, std::move(make)});
  return *this;
}

std::string GgufWriter::head() const {
  std::string out = "GGUF";
  put<std::uint32_t>(out, 3);
  put<std::uint64_t>(out, tensors_.size());
  put<std::uint64_t>(out, entries_);
  out += metadata_;
  std::uint64_t offset = 0;
  for (const Tensor& tensor : tensors_) {
    put_text(out, tensor.name);
    put(out, static_cast<std::uint32_t>(tensor.shape.size()));
    for (const std::uint64_t extent : tensor.shape) put(out, extent);
    put(out, tensor.type);
    put(out, offset);
    offset += tensor.size + padding(tensor.size).size();
  }
  return out;
}

void GgufWriter::stream_to(std::ostream& out) const {
  const std::string start = head();
  out << start << padding(start.size());
  for (const Tensor& tensor : tensors_) out << tensor.make() << padding(tensor.size);
}

std::string GgufWriter::bytes() const {
  std::ostringstream out;
  stream_to(out);
  return std::move(out).str();
}

Status GgufWriter::write(const std::filesystem::path& path) const {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  stream_to(out);
  if (out.flush()) return ok_status();
  return make_error(ErrorClass::kStorageFailed, ErrorReason::kBadConfig, "cannot write " + path.string());
}

}  // namespace troupe::weights
