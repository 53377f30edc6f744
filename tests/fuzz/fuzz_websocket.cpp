// WsSession: whole and cut at arbitrary places it must give the same messages; text is valid UTF-8 and within the limit; what it writes
// are well-formed frames, and nothing follows a close. The input is a script of frames, or raw bytes behind a first byte of 0xff.
#include "gateway/ws_session.h"
#include "tests/fuzz/fuzz_target.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

namespace {

using troupe::gateway::WsOpcode;
using troupe::gateway::WsSession;

constexpr std::size_t kMaxMessage = 1000;

bool valid_utf8(const std::string& text) {
  for (std::size_t i = 0; i < text.size();) {
    auto first = static_cast<unsigned char>(text[i]);
    std::size_t length = first < 0x80                    ? 1
                         : first >= 0xc2 && first < 0xe0 ? 2
                         : first >= 0xe0 && first < 0xf0 ? 3
                         : first >= 0xf0 && first < 0xf5 ? 4
                                                         : 0;
    if (length == 0 || i + length > text.size()) return false;
    std::uint32_t point = length == 1 ? first : first & (0xffU >> (length + 1));
    for (std::size_t k = 1; k < length; k++) {
      if ((text[i + k] & 0xc0) != 0x80) return false;
      point = point << 6 | (static_cast<unsigned char>(text[i + k]) & 0x3f);
    }
    if (length == 3 && (point < 0x800 || (point >= 0xd800 && point < 0xe000))) return false;
    if (length == 4 && (point < 0x10000 || point > 0x10ffff)) return false;
    i += length;
  }
  return true;
}

// The frames of `out` up to a close, which must be the last; aborts on anything malformed.
std::string frames_before_close(const std::string& out) {
  std::string data;
  for (std::size_t i = 0; i < out.size();) {
    if (i + 2 > out.size()) std::abort();
    auto opcode = static_cast<unsigned char>(out[i]);
    std::size_t length = static_cast<unsigned char>(out[i + 1]);
    std::size_t head = 2;
    if (length == 126) {
      head = 4;
      if (i + head > out.size()) std::abort();
      length = static_cast<std::size_t>(static_cast<unsigned char>(out[i + 2])) << 8 | static_cast<unsigned char>(out[i + 3]);
    } else if (length > 126) {
      std::abort();
    }
    if (i + head + length > out.size()) std::abort();
    if (opcode == 0x88) {
      if (i + head + length != out.size()) std::abort();
      break;
    }
    data.append(out, i, head + length);
    i += head + length;
  }
  return data;
}

struct Seen {
  std::string messages;
  std::string frames;
};

Seen play(std::string_view input, std::uint32_t seed) {
  Seen seen;
  std::string out;
  std::unique_ptr<WsSession> session;
  WsSession::Hooks hooks;
  hooks.write = [&](std::string_view bytes) { out += bytes; };
  hooks.message = [&](WsOpcode opcode, std::string&& message) {
    if (message.size() > kMaxMessage || (opcode == WsOpcode::kText && !valid_utf8(message))) std::abort();
    seen.messages += std::to_string(static_cast<int>(opcode)) + message + "|";
    session->send(opcode, message);
  };
  session = std::make_unique<WsSession>(kMaxMessage, std::move(hooks));
  while (!input.empty()) {
    std::size_t count = input.size();
    if (seed != 0) {
      seed = seed * 1664525 + 1013904223;
      count = std::min<std::size_t>(count, 1 + (seed >> 24) % 16);
    }
    session->feed(input.substr(0, count));
    input.remove_prefix(count);
  }
  seen.frames = frames_before_close(out);
  session->send(WsOpcode::kText, "late");
  session->ping();
  session->close(1001);
  frames_before_close(out);
  return seen;
}

std::string script_to_frames(const std::uint8_t* data, std::size_t size) {
  std::string input;
  for (std::size_t i = 0; i + 2 <= size;) {
    std::uint8_t first = data[i];
    std::uint8_t shape = data[i + 1];
    i += 2;
    std::size_t length = std::min<std::size_t>(shape & 63, size - i);
    std::string payload;
    for (int copies = 1 + (shape >> 6) * 60; copies > 0; copies--) payload.append(reinterpret_cast<const char*>(data) + i, length);
    i += length;
    bool reserved_bits = (first & 0x70) == 0x70;
    input += static_cast<char>((first & 0x8f) | (reserved_bits ? 0x40 : 0));
    if (payload.size() < 126) {
      input += static_cast<char>(0x80 | payload.size());
    } else {
      input += static_cast<char>(0xfe);
      input += static_cast<char>(payload.size() >> 8);
      input += static_cast<char>(payload.size());
    }
    input += "abcd";
    for (std::size_t k = 0; k < payload.size(); k++) input += static_cast<char>(payload[k] ^ "abcd"[k % 4]);
  }
  return input;
}

}  // namespace

FUZZ_TARGET(websocket) {
  bool raw = size > 0 && data[0] == 0xff;
  auto input = raw ? std::string(reinterpret_cast<const char*>(data) + 1, size - 1) : script_to_frames(data, size);
  std::uint32_t seed = 1;
  for (std::size_t i = 0; i < size; i++) seed = seed * 31 + data[i];
  auto whole = play(input, 0);
  auto cut = play(input, seed | 1);
  if (whole.messages != cut.messages || whole.frames != cut.frames) {
    std::fprintf(stderr, "--- whole\n%s\n--- cut\n%s\n", whole.messages.c_str(), cut.messages.c_str());
    std::abort();
  }
  return 0;
}
