#include "tests/support/gguf_writer.h"

#include "runtime/weights/format_table.h"
#include "tests/support/quantize.h"

#include <fstream>
#include <stdexcept>

namespace troupe::test {

GgufWriter& GgufWriter::tensor(std::string_view name, std::vector<std::uint64_t> shape, kernels::StorageType type,
                               std::span<const float> values) {
  raw_tensor(name, std::move(shape), weights::format_of(type).gguf_type, quantize(type, values));
  return *this;
}

void GgufWriter::write(const std::filesystem::path& path) const {
  if (const Status written = weights::GgufWriter::write(path); !written) throw std::runtime_error(written.error().client_text);
}

void write_file(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!out.flush()) throw std::runtime_error("cannot write " + path.string());
}

}  // namespace troupe::test
