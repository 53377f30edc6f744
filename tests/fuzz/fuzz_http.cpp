// HttpReader: whole and cut at arbitrary places it must see the same requests and give the same verdict; what it lets through keeps
// the limits.
#include "gateway/http_reader.h"
#include "tests/fuzz/fuzz_target.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

using troupe::gateway::HttpReader;
using troupe::gateway::Limits;

const Limits& limits() {
  static const Limits kLimits = [] {
    Limits l;
    l.body = 200;
    l.head = 400;
    l.target = 100;
    l.headers = 12;
    l.trailers = 60;
    l.chunk_line = 30;
    return l;
  }();
  return kLimits;
}

void check_limits(const HttpReader& reader) {
  const auto& request = reader.request;
  if (request.body.size() > limits().body || request.target.size() > limits().target || request.headers.size() > limits().headers)
    std::abort();
  for (unsigned char c : request.target)
    if (c <= 32 || c >= 127) std::abort();
  if (request.path().empty()) std::abort();
}

// seed 0: in one piece; else in pieces of 1 to 8 bytes.
std::string story(std::string_view input, std::uint32_t seed) {
  HttpReader reader(limits());
  std::string out;
  while (!input.empty()) {
    std::size_t count = input.size();
    if (seed != 0) {
      seed = seed * 1664525 + 1013904223;
      count = std::min<std::size_t>(count, 1 + (seed >> 24) % 8);
    }
    auto part = input.substr(0, count);
    input.remove_prefix(count);
    while (!part.empty()) {
      auto result = reader.feed(part);
      if (result == HttpReader::Result::kError) {
        if (reader.status() < 400) std::abort();
        return out + "!" + std::to_string(reader.status());
      }
      if (result != HttpReader::Result::kComplete) continue;
      check_limits(reader);
      const auto& request = reader.request;
      out += request.method + " " + request.target + (request.keep_alive ? " keep" : " close") + std::to_string(request.minor) + "\n";
      for (const auto& [name, value] : request.headers) out += name + "=" + value + "\n";
      out += request.body + "|";
      reader.reset();
    }
  }
  return out;
}

// Where a limit falls inside a line, the cut decides whether the line or the limit is judged first: the status may differ, not the verdict.
std::string verdict(const std::string& story) {
  auto mark = story.rfind('!');
  return mark == std::string::npos ? story : story.substr(0, mark + 1);
}

}  // namespace

FUZZ_TARGET(http) {
  std::string_view input(reinterpret_cast<const char*>(data), size);
  std::uint32_t seed = 1;
  for (unsigned char c : input) seed = seed * 31 + c;
  auto whole = story(input, 0);
  auto cut = story(input, seed | 1);
  bool ended_early = whole.find('!') != std::string::npos || cut.find('!') != std::string::npos;
  if (ended_early ? verdict(whole) != verdict(cut) : whole != cut) {
    std::fprintf(stderr, "--- whole\n%s\n--- cut\n%s\n", whole.c_str(), cut.c_str());
    std::abort();
  }
  return 0;
}
