// Writer: the output of one connection. Appends go to one buffer; flush(), once a loop turn, joins all events of the turn into one
// HTTP chunk and one write. Owned by its Connection; loop thread. Invariant: bytes leave in the order they were appended.
#pragma once
#include "gateway/tls.h"

#include <uv.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace troupe::gateway {

class Writer {
 public:
  /// `written(ok)` is called when a write that could not be done at once has ended; not after abandon().
  Writer(uv_tcp_t& socket, std::function<void(bool ok)> written);
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  void use_tls(Tls* tls) { tls_ = tls; }
  /// Heads, bodies, frames: bytes as they are.
  void append(std::string_view bytes) {
    plain_.append(bytes);
    appended_ += bytes.size();
  }
  /// Part of a chunked body: joined with its neighbours until the next seal().
  void append_chunk(std::string_view bytes) {
    chunk_.append(bytes);
    appended_ += bytes.size();
  }
  void seal();
  /// Ends a chunked body.
  void end_chunks();

  enum class Flushed { kAll, kSome, kFailed };
  /// kSome: the socket is full, or an earlier write still runs; `written` follows.
  Flushed flush(std::uint64_t now);
  /// Whatever TLS still has to say, if the socket takes it at once; used before FIN.
  void flush_tls_end();

  /// All bytes so far, without chunk heads.
  std::uint64_t appended() const { return appended_; }
  std::size_t queued() const { return plain_.size() + chunk_.size() + wire_.size() - sent_; }
  /// The socket has been offered output that it did not take whole.
  bool waiting() const { return writing_; }
  /// Loop time of the last byte that left, or of the start of the wait.
  std::uint64_t progress() const { return progress_; }
  void mark_progress(std::uint64_t now) { progress_ = now; }
  /// Notices what the socket took meanwhile of a write that still runs: a slow reader is not a stopped one.
  void observe(std::uint64_t now);
  /// Forgets the callback: the connection is closing.
  void abandon() { written_ = nullptr; }

 private:
  void wire_done();

  uv_tcp_t& socket_;
  uv_write_t request_{};
  std::function<void(bool ok)> written_;
  Tls* tls_ = nullptr;
  std::string plain_;     // ready to go, before TLS
  std::string chunk_;     // events of the open HTTP chunk
  std::string wire_;      // handed to the socket; must not move while a write runs
  std::size_t sent_ = 0;  // of wire_
  std::uint64_t progress_ = 0;
  std::uint64_t appended_ = 0;
  bool writing_ = false;
};

}  // namespace troupe::gateway
