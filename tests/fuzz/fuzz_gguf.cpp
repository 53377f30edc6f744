// Any bytes as a model file: an error or a file whose every tensor and value can be read.
#include "runtime/weights/gguf_reader.h"

#include <cstdlib>

using namespace troupe::weights;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span file(reinterpret_cast<const std::byte*>(data), size);
  const auto content = read_gguf(file, "fuzz");
  if (!content) {
    if (content.error().client_text.find('\n') != std::string::npos) std::abort();
    return 0;
  }
  volatile std::size_t sum = 0;
  for (const auto& [key, entry] : content->metadata) {
    const auto* array = std::get_if<MetadataArray>(&entry.value);
    if (array != nullptr && array->kind == GgufKind::kString) sum = sum + array_texts(file, *array).size();
    if (array != nullptr && is_integer(array->kind)) sum = sum + array_integers(file, *array).size();
  }
  for (const Tensor& tensor : content->tensors) sum = sum + std::to_integer<std::size_t>(file[tensor.offset + tensor.bytes - 1]);
  return 0;
}
