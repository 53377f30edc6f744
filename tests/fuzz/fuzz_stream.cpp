// Any tokens through the stream decoder, with stop strings: what comes out is valid UTF-8 without a stop string in it.
#include "runtime/text/stream_decoder.h"
#include "runtime/text/utf8.h"
#include "tests/support/tiny_model.h"
#include "tests/fuzz/fuzz_target.h"

#include <cstdlib>

using namespace troupe::text;

FUZZ_TARGET(stream) {
  static const auto tokenizer = *Tokenizer::make(troupe::test::tiny_vocabulary(400));
  const std::vector<std::string> stops{"aba", "ab\n", "é", "\n\n"};
  StreamDecoder decoder(tokenizer, stops);
  std::string out;
  std::uint32_t tokens = 0;
  const auto take = [&](const StreamDecoder::Piece& piece) {
    out += piece.text;
    tokens += piece.tokens;
  };
  for (std::size_t i = 0; i < size; ++i) take(decoder.push(static_cast<troupe::TokenId>(3 + data[i])));
  take(decoder.finish());
  for (std::string_view rest = out; !rest.empty(); rest.remove_prefix(utf8_step(rest).length))
    if (utf8_step(rest).kind != Utf8::kValid) std::abort();
  for (const std::string& stop : stops)
    if (out.find(stop) != std::string::npos) std::abort();
  if (tokens > size || (!decoder.stopped() && tokens != size)) std::abort();
  return 0;
}
