#include "runtime/text/jinja/text.h"

#include "messages/error.h"
#include "runtime/text/utf8.h"

namespace troupe::text::jinja {

Origin Text::weakest_origin() const {
  return origins_.find(static_cast<char>(Origin::kCaller)) == std::string::npos ? Origin::kTemplate : Origin::kCaller;
}

Text& Text::append(const Text& other) {
  bytes_ += other.bytes_;
  origins_ += other.origins_;
  return *this;
}

Text& Text::append(std::string_view bytes, Origin origin) {
  bytes_ += bytes;
  origins_.append(bytes.size(), static_cast<char>(origin));
  return *this;
}

Text Text::slice(std::size_t begin, std::size_t length) const {
  Text out;
  if (begin >= size()) return out;
  out.bytes_ = bytes_.substr(begin, length);
  out.origins_ = origins_.substr(begin, length);
  return out;
}

Text Text::with_bytes(std::string bytes) const {
  TROUPE_CHECK(bytes.size() == size());
  Text out;
  out.bytes_ = std::move(bytes);
  out.origins_ = origins_;
  return out;
}

std::vector<std::size_t> Text::character_offsets() const {
  std::vector<std::size_t> offsets;
  for (std::size_t at = 0; at < size();) {
    offsets.push_back(at);
    const Utf8Step step = utf8_step(std::string_view(bytes_).substr(at, 4));
    at += step.kind == Utf8::kValid ? step.length : 1;
  }
  offsets.push_back(size());
  return offsets;
}

std::vector<TextPiece> Text::pieces() const {
  std::vector<TextPiece> out;
  for (std::size_t begin = 0; begin < size();) {
    std::size_t end = origins_.find_first_not_of(origins_[begin], begin);
    if (end == std::string::npos) end = size();
    out.push_back({bytes_.substr(begin, end - begin), origin(begin) == Origin::kTemplate});
    begin = end;
  }
  return out;
}

}  // namespace troupe::text::jinja
