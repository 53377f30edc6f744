// See writer.h.
#include "gateway/writer.h"

#include <charconv>

namespace troupe::gateway {
namespace {

constexpr std::size_t kKeepPlain = 256 << 10;  // bytes of capacity worth keeping between turns
constexpr std::size_t kKeepWire = 64 << 10;

void clear(std::string& buffer, std::size_t keep) {
  buffer.clear();
  if (buffer.capacity() > keep) buffer.shrink_to_fit();
}

uv_stream_t* stream(uv_tcp_t& socket) { return reinterpret_cast<uv_stream_t*>(&socket); }

}  // namespace

Writer::Writer(uv_tcp_t& socket, std::function<void(bool ok)> written) : socket_(socket), written_(std::move(written)) {
  request_.data = this;
}

void Writer::seal() {
  if (chunk_.empty()) return;
  char head[20];
  auto* end = std::to_chars(head, head + 18, chunk_.size(), 16).ptr;
  *end++ = '\r';
  *end++ = '\n';
  plain_.append(head, static_cast<std::size_t>(end - head));
  plain_ += chunk_;
  plain_ += "\r\n";
  clear(chunk_, kKeepPlain);
}

void Writer::end_chunks() {
  seal();
  plain_ += "0\r\n\r\n";
}

void Writer::wire_done() {
  clear(wire_, kKeepWire);
  sent_ = 0;
}

Writer::Flushed Writer::flush(std::uint64_t now) {
  if (writing_) return Flushed::kSome;
  seal();
  if (tls_ != nullptr) {  // encrypt only now, so that records are full
    if (!plain_.empty() && !tls_->write(plain_)) return Flushed::kFailed;
    clear(plain_, kKeepPlain);
    tls_->take(wire_);
  } else {
    wire_.swap(plain_);
  }
  if (wire_.empty()) return Flushed::kAll;
  uv_buf_t buffer = uv_buf_init(wire_.data(), static_cast<unsigned>(wire_.size()));
  int written = uv_try_write(stream(socket_), &buffer, 1);
  if (written == UV_EAGAIN) written = 0;
  if (written < 0) return Flushed::kFailed;
  progress_ = now;  // bytes left, or the wait begins now
  if (static_cast<std::size_t>(written) == wire_.size()) {
    wire_done();
    return Flushed::kAll;
  }
  sent_ = static_cast<std::size_t>(written);
  buffer = uv_buf_init(wire_.data() + sent_, static_cast<unsigned>(wire_.size() - sent_));
  int result = uv_write(&request_, stream(socket_), &buffer, 1, [](uv_write_t* request, int status) {
    auto* self = static_cast<Writer*>(request->data);
    self->writing_ = false;
    self->wire_done();
    if (self->written_) self->written_(status == 0);
  });
  if (result != 0) return Flushed::kFailed;
  writing_ = true;
  return Flushed::kSome;
}

void Writer::observe(std::uint64_t now) {
  if (!writing_) return;
  std::size_t left = uv_stream_get_write_queue_size(stream(socket_));
  if (left > wire_.size() - sent_) return;  // not expected: the queue holds our one write
  if (left < wire_.size() - sent_) progress_ = now;
  sent_ = wire_.size() - left;
}

void Writer::flush_tls_end() {
  if (tls_ == nullptr || writing_) return;
  tls_->take(wire_);
  if (wire_.empty()) return;
  uv_buf_t buffer = uv_buf_init(wire_.data(), static_cast<unsigned>(wire_.size()));
  uv_try_write(stream(socket_), &buffer, 1);  // best effort: the answer itself is out already
  wire_done();
}

}  // namespace troupe::gateway
