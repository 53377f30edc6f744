// Any bytes as a model file: an error in one line, or a file whose every tensor and value can be read, and of which tokenizer, chat
// template and configuration are made, or refused, too.
#include "runtime/model/model.h"
#include "runtime/text/chat_template.h"
#include "runtime/weights/gguf_file.h"
#include "runtime/weights/gguf_reader.h"
#include "tests/fuzz/fuzz_target.h"

#include <cstdlib>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

using namespace troupe;
using namespace troupe::weights;

namespace {

void one_line(const Error& error) {
  if (error.client_text.empty() || error.client_text.find('\n') != std::string::npos) std::abort();
}

/// What the start of a server makes of a file before it loads weights.
void open_as_server(const std::uint8_t* data, std::size_t size) {
  const int file = memfd_create("fuzz", MFD_CLOEXEC);
  if (write(file, data, size) != static_cast<ssize_t>(size)) std::abort();
  const auto opened = GgufFile::open("/proc/self/fd/" + std::to_string(file));
  close(file);
  if (!opened) return one_line(opened.error());
  if (const auto config = model::read_config(**opened); !config) one_line(config.error());
  auto vocabulary = read_vocabulary(**opened);
  if (!vocabulary) return one_line(vocabulary.error());
  const auto tokenizer = text::Tokenizer::make(*std::move(vocabulary));
  if (!tokenizer) return one_line(tokenizer.error());
  (*tokenizer)->decode((*tokenizer)->encode("Hello <|im_end|>", true));
  const auto chat_template = text::ChatTemplate::compile((*opened)->text("tokenizer.chat_template").value_or(""), "<s>", "</s>");
  if (!chat_template) one_line(chat_template.error());
}

}  // namespace

FUZZ_TARGET(gguf) {
  const std::span file(reinterpret_cast<const std::byte*>(data), size);
  const auto content = read_gguf(file, "fuzz");
  if (!content) {
    one_line(content.error());
    return 0;
  }
  volatile std::size_t sum = 0;
  for (const auto& [key, entry] : content->metadata) {
    const auto* array = std::get_if<MetadataArray>(&entry.value);
    if (array != nullptr && array->kind == GgufKind::kString) sum = sum + array_texts(file, *array).size();
    if (array != nullptr && is_integer(array->kind)) sum = sum + array_integers(file, *array).size();
  }
  for (const Tensor& tensor : content->tensors) sum = sum + std::to_integer<std::size_t>(file[tensor.offset + tensor.bytes - 1]);
  open_as_server(data, size);
  return 0;
}
