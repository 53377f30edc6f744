#include "runtime/text/stream_decoder.h"

#include "runtime/text/utf8.h"

#include <algorithm>

namespace troupe::text {

StreamDecoder::StreamDecoder(std::shared_ptr<const Tokenizer> tokenizer, std::vector<std::string> stops)
    : tokenizer_(std::move(tokenizer)), stops_(std::move(stops)) {
  std::erase_if(stops_, [](const std::string& stop) { return stop.empty(); });
  std::stable_sort(stops_.begin(), stops_.end(), [](const std::string& a, const std::string& b) { return a.size() > b.size(); });
}

StreamDecoder::Piece StreamDecoder::push(TokenId token) {
  if (stopped_) return {};
  const std::size_t checked = held_.size();
  const std::string_view bytes = tokenizer_->is_control(token) ? std::string_view() : tokenizer_->bytes(token);
  bytes_pushed_ += bytes.size();
  byte_ends_.push_back(bytes_pushed_);
  append(bytes);
  if (auto stop = match_stops(checked)) return *stop;
  return send(held_.size() - held_back());
}

StreamDecoder::Piece StreamDecoder::finish() {
  if (stopped_) return {};
  const std::size_t checked = held_.size();
  if (!bytes_.empty()) {  // the beginning of a character that will not be completed
    bytes_read_ += bytes_.size();
    bytes_.clear();
    held_ += kReplacement;
    text_made_ += kReplacement.size();
    complete_tokens();
  }
  if (auto stop = match_stops(checked)) return *stop;
  return send(held_.size());
}

/// Moves what has become whole characters from bytes_ to held_.
void StreamDecoder::append(std::string_view bytes) {
  bytes_ += bytes;
  std::size_t at = 0;
  complete_tokens();  // a token without bytes ends where the one before it did
  while (at < bytes_.size()) {
    const std::string_view rest = std::string_view(bytes_).substr(at);
    const Utf8Step step = utf8_step(rest);
    if (step.kind == Utf8::kIncomplete) break;
    const std::string_view character = step.kind == Utf8::kValid ? rest.substr(0, step.length) : kReplacement;
    held_ += character;
    text_made_ += character.size();
    bytes_read_ += step.length;
    at += step.length;
    complete_tokens();
  }
  bytes_.erase(0, at);
}

/// Tokens whose last byte has just been read end at the end of the text made so far.
void StreamDecoder::complete_tokens() {
  while (!byte_ends_.empty() && byte_ends_.front() <= bytes_read_) {
    text_ends_.push_back(text_made_);
    byte_ends_.pop_front();
  }
}

/// The first stop string that ends after the first `checked` bytes of held_: sends what is before it and drops the rest.
std::optional<StreamDecoder::Piece> StreamDecoder::match_stops(std::size_t checked) {
  const std::string_view held = held_;
  for (std::size_t end = checked + 1; end <= held.size(); ++end) {
    for (const std::string& stop : stops_) {
      if (!held.substr(0, end).ends_with(stop)) continue;
      Piece piece = send(end - stop.size());
      piece.stop = stop;
      stopped_ = true;
      held_.clear();
      bytes_.clear();
      byte_ends_.clear();
      text_ends_.clear();
      return piece;
    }
  }
  return std::nullopt;
}

/// Bytes at the end of held_ that may be the beginning of a stop string.
std::size_t StreamDecoder::held_back() const {
  if (stops_.empty()) return 0;
  const std::string_view held = held_;
  for (std::size_t length = std::min(held.size(), stops_.front().size() - 1); length > 0; --length) {
    const std::string_view tail = held.substr(held.size() - length);
    for (const std::string& stop : stops_)
      if (stop.size() > length && stop.starts_with(tail)) return length;
  }
  return 0;
}

StreamDecoder::Piece StreamDecoder::send(std::size_t length) {
  Piece piece;
  piece.text = held_.substr(0, length);
  held_.erase(0, length);
  text_sent_ += length;
  while (!text_ends_.empty() && text_ends_.front() <= text_sent_) {
    text_ends_.pop_front();
    ++piece.tokens;
  }
  complete_ += piece.tokens;
  return piece;
}

}  // namespace troupe::text
