#include "runtime/weights/content_hash.h"
#include "runtime/weights/gguf_file.h"
#include "messages/error_reasons.h"
#include "runtime/weights/gguf_reader.h"
#include "tests/support/random.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/tiny_model.h"

#include <catch2/catch.hpp>

#include <cstring>
#include <unistd.h>

using namespace troupe;
using namespace troupe::weights;
using kernels::StorageType;

namespace {

/// A folder of this test's own, removed at the end.
class Folder {
 public:
  Folder() : path_(std::filesystem::temp_directory_path() / ("troupe-gguf-test-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::filesystem::path file(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text.data(), text.size())); }

/// The error of a file with these bytes: one line, that names file and offset.
Error error_of(const std::string& bytes) {
  const auto read = read_gguf(bytes_of(bytes), "m.gguf");
  REQUIRE_FALSE(read.ok());
  const std::string& text = read.error().client_text;
  CHECK(text.starts_with("m.gguf: "));
  CHECK(text.find(" at offset ") != std::string::npos);
  for (const char c : text) CHECK((c >= 0x20 && c < 0x7f));
  return read.error();
}
bool mentions(const Error& error, std::string_view part) {
  INFO(error.client_text);
  return error.client_text.find(part) != std::string::npos;
}

template <class T>
std::string patched(std::string bytes, std::size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof(T));
  return bytes;
}

/// Reads all that a good file offers, so that a sanitizer sees every access.
std::size_t touch(std::span<const std::byte> file, const GgufContent& content) {
  std::size_t sum = 0;
  for (const auto& [key, entry] : content.metadata) {
    if (const auto* text = std::get_if<std::string_view>(&entry.value))
      for (const char c : *text) sum += static_cast<unsigned char>(c);
    if (const auto* array = std::get_if<MetadataArray>(&entry.value)) {
      if (array->kind == GgufKind::kString) sum += array_texts(file, *array).size();
      if (is_integer(array->kind)) sum += array_integers(file, *array).size();
    }
  }
  for (const Tensor& tensor : content.tensors)
    if (tensor.bytes > 0)
      sum += std::to_integer<std::size_t>(file[tensor.offset]) + std::to_integer<std::size_t>(file[tensor.offset + tensor.bytes - 1]);
  return sum;
}

test::TinyModelOptions small() {
  test::TinyModelOptions options;
  options.layers = 1;
  options.vocabulary = 262;
  return options;
}

}  // namespace

TEST_CASE("a good file") {
  const Folder folder;
  auto writer = test::tiny_model({});
  writer.integers("some.numbers", std::vector<std::int32_t>{-1, 2});
  writer.write(folder.file("tiny.gguf"));
  const auto opened = GgufFile::open(folder.file("tiny.gguf"));
  REQUIRE(opened.ok());
  const GgufFile& file = **opened;
  CHECK(file.text("general.architecture") == "llama");
  CHECK(file.unsigned_integer("llama.block_count") == 2);
  CHECK(file.real("llama.rope.freq_base") == 10000.0);
  CHECK(file.boolean("tokenizer.ggml.add_bos_token") == false);
  CHECK(file.texts("tokenizer.ggml.tokens")->size() == 320);
  CHECK(file.integers("some.numbers") == std::vector<std::int64_t>{-1, 2});
  CHECK_FALSE(file.text("llama.block_count"));
  CHECK_FALSE(file.unsigned_integer("general.architecture"));
  CHECK_FALSE(file.integers("tokenizer.ggml.tokens"));
  CHECK_FALSE(file.real("absent"));
  const Tensor* tensor = file.find("blk.1.ffn_down.weight");
  REQUIRE(tensor != nullptr);
  CHECK(tensor->shape == std::vector<std::uint64_t>{96, 64});
  CHECK(tensor->type == StorageType::kQ4_1);
  CHECK(tensor->bytes == 96 / 32 * 20 * 64);
  CHECK(tensor->cols() == 96);
  CHECK(tensor->rows() == 64);
  CHECK(file.find("absent") == nullptr);
  CHECK(file.size_bytes() == std::filesystem::file_size(folder.file("tiny.gguf")));
  CHECK(file.tensors().size() == 1 + 2 * 9 + 1);
}

TEST_CASE("the content hash is that of the bytes") {
  const Folder folder;
  const auto hash = [&](std::uint64_t seed, const char* name) {
    auto options = small();
    options.seed = seed;
    test::tiny_model(options).write(folder.file(name));
    return hash_content((*GgufFile::open(folder.file(name)))->disk_file()).value();
  };
  const Hash128 first = hash(1, "a.gguf");
  CHECK(first == hash(1, "b.gguf"));
  CHECK_FALSE(first == hash(2, "c.gguf"));
}

TEST_CASE("files that cannot be read") {
  const Folder folder;
  const auto absent = GgufFile::open(folder.file("absent.gguf"));
  REQUIRE_FALSE(absent.ok());
  CHECK(absent.error().error_class == ErrorClass::kNotFound);
  CHECK(absent.error().reason == ErrorReason::kFileUnreadable);
  CHECK(mentions(absent.error(), "absent.gguf"));
  std::filesystem::create_directories(folder.file("folder"));
  CHECK_FALSE(GgufFile::open(folder.file("folder")).ok());
  test::write_file(folder.file("empty"), "");
  CHECK_FALSE(GgufFile::open(folder.file("empty")).ok());
  test::write_file(folder.file("text"), "just some text, longer than a header would be");
  const auto foreign = GgufFile::open(folder.file("text"));
  REQUIRE_FALSE(foreign.ok());
  CHECK(mentions(foreign.error(), "text: magic at offset 0: this is not a GGUF file"));
}

TEST_CASE("every truncation is an error, never a crash") {
  const auto writer = test::tiny_model(small());
  const std::string whole = writer.bytes();
  const std::size_t head = writer.head().size();
  REQUIRE(read_gguf(bytes_of(whole), "m.gguf").ok());
  for (std::size_t size = 0; size < head + 64; ++size) {
    const std::string cut = whole.substr(0, size);  // a heap block of just that size: a sanitizer sees one byte too many
    CHECK_FALSE(read_gguf(bytes_of(cut), "m.gguf").ok());
  }
  for (const std::size_t missing : {std::size_t{40}, std::size_t{100}, whole.size() / 2}) {
    const Error error = error_of(whole.substr(0, whole.size() - missing));
    CHECK(mentions(error, "data offset"));
    CHECK(mentions(error, "truncated?"));
  }
}

TEST_CASE("R86: a file of 88 bytes with a zero dimension, an empty key: errors that name them") {
  test::GgufWriter writer;
  writer.text("", "x");
  CHECK(mentions(error_of(writer.bytes()), "key"));
  // magic, version, 1 tensor, 0 entries; a tensor "t" of two extents, one of them 0; padding up to 88 bytes
  std::string bytes("GGUF\3\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0t\2\0\0\0", 37);
  bytes.resize(88, '\0');
  REQUIRE(bytes.size() == 88);
  CHECK(mentions(error_of(bytes), "t"));
  CHECK(mentions(error_of(patched<std::uint64_t>(bytes, 37, 32)), "t"));
}

TEST_CASE("R88: a download that was cut is refused when it is opened, a file that shrinks later is read no further") {
  const auto path = test::scratch_folder() / "r88.gguf";
  const std::string whole = test::tiny_model({}).bytes();
  for (const std::size_t size : {whole.size() / 2, whole.size() - 100, whole.size() - 1}) {
    test::write_file(path, std::string_view(whole).substr(0, size));
    const auto opened = GgufFile::open(path);
    REQUIRE_FALSE(opened);
    CHECK(mentions(opened.error(), "truncated?"));
  }
  test::write_file(path, whole);
  const auto opened = GgufFile::open(path);
  REQUIRE(opened);
  std::filesystem::resize_file(path, whole.size() / 2);  // mapped memory would be a SIGBUS now
  std::size_t unreadable = 0;
  for (const Tensor& tensor : (*opened)->tensors()) {
    std::vector<std::byte> data(tensor.bytes);
    unreadable += (*opened)->read(tensor, 0, data) ? 0 : 1;
  }
  CHECK(unreadable > 0);
  CHECK(unreadable < (*opened)->tensors().size());
}

TEST_CASE("random damage is an error or a readable file, never a crash") {
  const std::string whole = test::tiny_model(small()).bytes();
  const std::size_t head = test::tiny_model(small()).head().size();
  test::SmallRandom random(13);
  std::size_t refused = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string bytes = whole;
    for (std::size_t n = 1 + random.below(3); n > 0; --n) {
      const std::size_t at = random.below(round % 2 == 0 ? 400 : head);
      if (random.below(2) == 0)
        bytes[at] = static_cast<char>(random.below(256));
      else
        bytes = patched(bytes, at, random.below(2) == 0 ? ~std::uint64_t{0} : random.next() >> random.below(64));
    }
    const auto read = read_gguf(bytes_of(bytes), "m.gguf");
    if (read)
      touch(bytes_of(bytes), *read);
    else
      ++refused;
    if (!read) CHECK(read.error().client_text.find('\n') == std::string::npos);
  }
  CHECK(refused > 1000);
}

TEST_CASE("each broken field is named") {
  const std::string good =
      test::GgufWriter().tensor("a", {32}, StorageType::kF32, std::vector<float>(32)).text("general.architecture", "llama").bytes();
  REQUIRE(read_gguf(bytes_of(good), "m.gguf").ok());
  CHECK(mentions(error_of(patched<std::uint32_t>(good, 4, 1)), "version at offset 4: version 1 is not supported"));
  CHECK(mentions(error_of(patched<std::uint32_t>(good, 4, 0x03000000)), "big-endian"));
  CHECK(mentions(error_of(patched<std::uint64_t>(good, 8, ~0ULL)), "tensor count at offset 8"));
  CHECK(mentions(error_of(patched<std::uint64_t>(good, 16, 1ULL << 60)), "metadata count at offset 16"));
  CHECK(mentions(error_of(patched<std::uint64_t>(good, 24, 1ULL << 40)), "metadata key 0 at offset 24: length"));
  CHECK(mentions(error_of(patched<std::uint64_t>(good, 24, 0)), "the key is empty"));
  const std::size_t kind = 24 + 8 + 20;
  CHECK(mentions(error_of(patched<std::uint32_t>(good, kind, 99)), "general.architecture at offset 52: value kind 99 is unknown"));
  CHECK(mentions(error_of(patched<std::uint64_t>(good, kind + 4, ~0ULL)), "general.architecture at offset 56: length"));
  const std::size_t tensor = kind + 4 + 8 + 5;  // name length, "a", dimensions, extent, type, offset
  CHECK(mentions(error_of(patched<std::uint32_t>(good, tensor + 9, 5)), "tensor 'a' shape at offset 78: 5 dimensions"));
  CHECK(mentions(error_of(patched<std::uint32_t>(good, tensor + 9, 0)), "0 dimensions"));
  CHECK(mentions(error_of(patched<std::uint64_t>(good, tensor + 13, 0)), "extent 0 of dimension 0"));
  CHECK(mentions(error_of(patched<std::uint64_t>(good, tensor + 13, 1ULL << 62)), "out of range"));
  const Error type = error_of(patched<std::uint32_t>(good, tensor + 21, 13));
  CHECK(mentions(type, "tensor 'a' type at offset 90: storage type Q5_K (13) is not supported"));
  CHECK(type.reason == ErrorReason::kUnsupportedModel);
  CHECK(mentions(error_of(patched<std::uint32_t>(good, tensor + 21, 14)), "not whole Q6_K blocks of 256"));
  CHECK(mentions(error_of(patched<std::uint64_t>(good, tensor + 25, 7)), "is not a multiple of the alignment 32"));
  CHECK(mentions(error_of(patched<std::uint64_t>(good, tensor + 25, 1ULL << 63)), "end outside the file"));
}

TEST_CASE("duplicates, overlaps, odd alignments, kinds") {
  const std::vector<float> values(32);
  const auto bytes = [](const weights::GgufWriter& writer) { return writer.bytes(); };
  CHECK(mentions(error_of(bytes(test::GgufWriter().boolean("k", true).boolean("k", true))), "k at offset 38: the key occurs twice"));
  CHECK(mentions(
      error_of(bytes(test::GgufWriter().tensor("t", {32}, StorageType::kF32, values).tensor("t", {32}, StorageType::kF32, values))),
      "tensor 't' name"));
  for (const std::uint32_t alignment : {0U, 7U, 48U, 1U << 20})
    CHECK(mentions(error_of(bytes(test::GgufWriter().unsigned_integer("general.alignment", alignment))), "general.alignment"));
  std::string two = bytes(test::GgufWriter().tensor("t", {32}, StorageType::kF32, values).tensor("u", {32}, StorageType::kF32, values));
  two = patched<std::uint64_t>(two, 24 + 33 + 25, 64);  // u begins in the middle of t
  CHECK(mentions(error_of(two), "tensor 'u' data offset"));
  CHECK(mentions(error_of(bytes(test::GgufWriter().texts("k", {}).text("x\n\x01", "").text("x\n\x01", ""))), "x\\x0a\\x01"));
}

TEST_CASE("a part of a model that is cut into files is refused with a hint") {
  const Folder folder;
  REQUIRE(test::GgufWriter().unsigned_integer("split.count", 3).write(folder.file("part.gguf")).ok());
  const auto part = GgufFile::open(folder.file("part.gguf"));
  REQUIRE_FALSE(part.ok());
  CHECK(mentions(part.error(), "split.count"));
}

TEST_CASE("errors about a field say where it is") {
  const Folder folder;
  test::tiny_model(small()).write(folder.file("t.gguf"));
  const auto file = *GgufFile::open(folder.file("t.gguf"));
  CHECK(mentions(file->bad("general.architecture", "x"), "t.gguf: general.architecture at offset 56: x"));
  CHECK(file->bad("output_norm.weight", "x").reason == ErrorReason::kBadModelFile);
  CHECK(mentions(file->bad("absent", "missing"), "absent at offset 24: missing"));
}

TEST_CASE("vocabularies") {
  const Folder folder;
  const auto read = [&](auto&& change) {
    test::GgufWriter writer;
    change(writer);
    writer.write(folder.file("v.gguf"));
    return read_vocabulary(**GgufFile::open(folder.file("v.gguf")));
  };
  const std::vector<std::string> tokens{"a", "b", "ab"}, merges{"a b"};
  const auto base = [&](test::GgufWriter& w) {
    w.text("tokenizer.ggml.model", "gpt2").texts("tokenizer.ggml.tokens", tokens).texts("tokenizer.ggml.merges", merges);
  };
  const auto good = read([&](test::GgufWriter& w) {
    base(w);
    w.unsigned_integer("tokenizer.ggml.eos_token_id", 2).boolean("tokenizer.ggml.add_bos_token", true);
  });
  REQUIRE(good.ok());
  CHECK(good->tokens == tokens);
  CHECK(good->types == std::vector<std::int32_t>{1, 1, 1});
  CHECK(good->eos == 2U);
  CHECK_FALSE(good->bos);
  CHECK(good->add_bos);
  CHECK(good->pre == "default");

  CHECK(mentions(read([](test::GgufWriter&) {}).error(), "tokenizer.ggml.model"));
  CHECK(read([](test::GgufWriter& w) { w.text("tokenizer.ggml.model", "llama"); }).error().reason == ErrorReason::kUnsupportedModel);
  CHECK(mentions(read([](test::GgufWriter& w) { w.text("tokenizer.ggml.model", "gpt2"); }).error(), "tokenizer.ggml.tokens"));
  CHECK(mentions(read([&](test::GgufWriter& w) { w.text("tokenizer.ggml.model", "gpt2").texts("tokenizer.ggml.tokens", tokens); }).error(),
                 "tokenizer.ggml.merges"));
  CHECK(mentions(read([&](test::GgufWriter& w) {
                   base(w);
                   w.integers("tokenizer.ggml.token_type", std::vector<std::int32_t>{1});
                 }).error(),
                 "has 1 entries for 3 tokens"));
  CHECK(mentions(read([&](test::GgufWriter& w) {
                   base(w);
                   w.integers("tokenizer.ggml.token_type", std::vector<std::int32_t>{1, 9, 1});
                 }).error(),
                 "token type 9"));
  CHECK(mentions(read([&](test::GgufWriter& w) {
                   base(w);
                   w.unsigned_integer("tokenizer.ggml.bos_token_id", 3);
                 }).error(),
                 "outside the vocabulary"));
}
