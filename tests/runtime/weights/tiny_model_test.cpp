// The models that other tests write are good files, of every storage type, and the same each time.
#include "runtime/text/tokenizer.h"
#include "runtime/weights/gguf_file.h"
#include "runtime/weights/gguf_reader.h"
#include "tests/support/tiny_model.h"

#include <catch2/catch.hpp>

using namespace troupe;
using kernels::StorageType;

TEST_CASE("tiny models are readable in every storage type") {
  for (const StorageType type : {StorageType::kF32, StorageType::kF16, StorageType::kBF16, StorageType::kQ8_0, StorageType::kQ4_0,
                                 StorageType::kQ4_1, StorageType::kQ6_K}) {
    test::TinyModelOptions options;
    options.type = type;
    options.hidden = 256;
    options.head_dim = 64;
    options.tied = type == StorageType::kQ8_0;
    const std::string bytes = test::tiny_model(options).bytes();
    CHECK(bytes == test::tiny_model(options).bytes());
    const auto content = weights::read_gguf(std::as_bytes(std::span(bytes.data(), bytes.size())), "tiny");
    REQUIRE(content.ok());
    for (const weights::Tensor& tensor : content->tensors) {
      const bool whole_blocks = type != StorageType::kQ6_K || tensor.shape[0] % 256 == 0;
      if (tensor.shape.size() == 2) CHECK(tensor.type == (whole_blocks ? type : StorageType::kQ8_0));
    }
  }
}

TEST_CASE("the vocabulary makes a tokenizer, of every size") {
  for (const std::size_t size : {259, 260, 320, 500, 900}) {
    const auto tokenizer = text::Tokenizer::make(test::tiny_vocabulary(size));
    REQUIRE(tokenizer.ok());
    CHECK((*tokenizer)->size() == size);
  }
}
