// WsSession: messages, close codes, the guards around wslay.
#include "gateway/ws_session.h"

#include <catch2/catch.hpp>

#include <vector>

using troupe::gateway::WsOpcode;
using troupe::gateway::WsSession;

namespace {

struct Peer {
  std::string out;
  std::vector<std::string> messages;
  WsSession session;
  explicit Peer(std::uint64_t max = 1000)
      : session(max, {[this](std::string_view bytes) { out += bytes; },
                      [this](WsOpcode opcode, std::string&& message) {
                        messages.push_back(message);
                        session.send(opcode, message);
                      }}) {}
  void feed(std::string_view input, std::size_t piece) {
    while (!input.empty()) {
      auto part = input.substr(0, piece);
      session.feed(part);
      input.remove_prefix(part.size());
    }
  }
};

std::string frame(int first, std::string_view payload, std::uint64_t length, bool masked = true) {
  std::string out(1, static_cast<char>(first));
  char mask_bit = masked ? '\x80' : '\0';
  if (length < 126) {
    out += static_cast<char>(mask_bit | static_cast<char>(length));
  } else if (length < 65536) {
    out += static_cast<char>(mask_bit | 126);
    out += static_cast<char>(length >> 8);
    out += static_cast<char>(length);
  } else {
    out += static_cast<char>(mask_bit | 127);
    for (int shift = 56; shift >= 0; shift -= 8) out += static_cast<char>(length >> shift);
  }
  if (!masked) return out.append(payload);
  out += "abcd";
  for (std::size_t i = 0; i < payload.size(); i++) out += static_cast<char>(payload[i] ^ "abcd"[i % 4]);
  return out;
}
std::string frame(int first, std::string_view payload) { return frame(first, payload, payload.size()); }

std::string close_of(const std::string& input, std::uint64_t max = 1000) {
  Peer peer(max);
  peer.feed(input, 1);
  CHECK(peer.session.finished());
  return peer.out.size() >= 4 ? peer.out.substr(peer.out.size() - 4) : peer.out;
}
const std::string kProtocolError("\x88\x02\x03\xea", 4);
const std::string kNotUtf8("\x88\x02\x03\xef", 4);
const std::string kTooBig("\x88\x02\x03\xf1", 4);

}  // namespace

TEST_CASE("messages come out whole, however they were cut") {
  std::string input = frame(0x81, "hello") + frame(0x89, "p") + frame(0x01, "\xe2\x82") + frame(0x89, "q") + frame(0x80, "\xac!") +
                      frame(0x82, std::string(200, 'z')) + frame(0x88, std::string("\x03\xe8") + "bye");
  std::string first_out;
  for (std::size_t piece = 1; piece < input.size(); piece++) {
    Peer peer;
    peer.feed(input, piece);
    CHECK(peer.messages == std::vector<std::string>{"hello", "\xe2\x82\xac!", std::string(200, 'z')});
    CHECK(peer.session.finished());
    if (first_out.empty()) first_out = peer.out;
    CHECK(peer.out == first_out);
  }
  CHECK(first_out.find("\x8a\x01p") != std::string::npos);
}

TEST_CASE("protocol errors are closed with their code") {
  CHECK(close_of(frame(0x81, "x", 1, false)) == kProtocolError);
  CHECK(close_of(frame(0xc1, "x")) == kProtocolError);
  CHECK(close_of(frame(0x83, "x")) == kProtocolError);
  CHECK(close_of(frame(0x09, "x")) == kProtocolError);                                // fragmented ping
  CHECK(close_of(frame(0x89, std::string(126, 'x'))) == kProtocolError);              // long ping
  CHECK(close_of(frame(0x80, "x")) == kProtocolError);                                // continuation of nothing
  CHECK(close_of(frame(0x01, "x") + frame(0x81, "y")) == kProtocolError);             // text inside text
  CHECK(close_of(frame(0x88, "x")) == kProtocolError);                                // close body of one byte
  CHECK(close_of(frame(0x88, "\x03\xed")) == kProtocolError);                         // 1005 may not be sent
  CHECK(close_of(std::string("\x81\xfe\0\x05", 4) + "abcd12345") == kProtocolError);  // length not in its shortest form
  CHECK(close_of(frame(0x81, "\xff")) == kNotUtf8);
  CHECK(close_of(frame(0x81, "\xe2\x82")) == kNotUtf8);
}

TEST_CASE("too big is closed with 1009, whatever the length announced") {
  CHECK(close_of(frame(0x82, std::string(101, 'x')), 100) == kTooBig);
  CHECK(close_of(frame(0x02, std::string(60, 'x')) + frame(0x80, std::string(60, 'x')), 100) == kTooBig);
  CHECK(close_of(frame(0x82, "x", std::uint64_t{1} << 62), 100) == kTooBig);
}

TEST_CASE("every ping is answered, in order, and nothing follows a close") {
  Peer peer;
  std::string pings;
  std::string pongs;
  for (int i = 0; i < 1000; i++) {
    auto text = std::to_string(i);
    pings += frame(0x89, text);
    pongs += std::string("\x8a") + static_cast<char>(text.size()) + text;
  }
  peer.feed(pings, 997);
  CHECK(peer.out == pongs);
  peer.out.clear();
  peer.session.close(1001, "going");
  CHECK(peer.out == std::string("\x88\x07\x03\xe9", 4) + "going");
  CHECK_FALSE(peer.session.send(WsOpcode::kText, "late"));
  peer.session.ping();
  CHECK(peer.out.size() == 9);
  CHECK_FALSE(peer.session.finished());
  peer.feed(frame(0x88, "\x03\xe9"), 1);
  CHECK(peer.session.finished());
}

TEST_CASE("accept keys") {
  CHECK(WsSession::accept_key("dGhlIHNhbXBsZSBub25jZQ==") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
  CHECK(WsSession::accept_key("").empty());
  CHECK(WsSession::accept_key("dGhlIHNhbXBsZSBub25jZQ").empty());
  CHECK(WsSession::accept_key("!!!!!!!!!!!!!!!!!!!!!!==").empty());
}
