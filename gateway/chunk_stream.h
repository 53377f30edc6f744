// ChunkStream: the server-sent events of a streamed chat completion or completion: "data: {...}" a chunk, a comment in long silences, one
// error or "[DONE]" at the end. Written by hand: a token must not cost a tree of JSON values. Part of an Exchange; loop thread.
// Invariant: no status line before begin(); what is written before that waits for it.
#pragma once
#include "gateway/service.h"
#include "gateway/stream_ping.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace troupe::gateway {

class ChunkStream {
 public:
  /// `object`: "chat.completion.chunk"; `usage`: chunks have the field `usage`, null in all but the last.
  ChunkStream(Service& service, Connection& connection, std::string_view id_prefix, std::string_view object, std::string_view model,
              bool usage);

  void begin();
  /// `choices`: entries of the array, as JSON text.
  void write(std::string_view choices);
  void tick(std::uint64_t now);
  /// The last chunk, without choices, where usage was asked for; then the end.
  void end(const nlohmann::json& usage);
  /// An answer of its own, or an event in the stream that has begun.
  void fail(const Error& error);

 private:
  void write_chunk(std::string_view choices, std::string_view usage);

  Service& service_;
  Connection& connection_;
  std::string prefix_;   // of each chunk, up to its choices
  std::string waiting_;  // chunks written before begin()
  const bool usage_;
  bool begun_ = false;
  StreamPing ping_;
};

/// {"index", <content>, "logprobs", "finish_reason"}; `content` is a member as JSON text, empty logprobs and reason are null.
std::string chunk_choice(std::size_t index, std::string_view content, std::string_view logprobs, std::string_view reason);
/// "name":"text"
std::string named_string(std::string_view name, std::string_view text);

}  // namespace troupe::gateway
