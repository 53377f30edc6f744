// HttpReader and the grammar: what it takes, what it refuses, and that no verdict depends on where the input was cut.
#include "gateway/http_reader.h"

#include <catch2/catch.hpp>

#include <vector>

using troupe::gateway::HttpReader;
using troupe::gateway::Limits;
using Result = HttpReader::Result;

namespace {

// All requests of `input`, as text, read in pieces of `piece` bytes; ends with "!<status>" after a refusal.
std::string story(std::string_view input, std::size_t piece, const Limits& limits = {}) {
  HttpReader reader(limits);
  std::string out;
  while (!input.empty()) {
    auto part = input.substr(0, piece);
    input.remove_prefix(part.size());
    while (!part.empty()) {
      switch (reader.feed(part)) {
        case Result::kError: return out + "!" + std::to_string(reader.status());
        case Result::kComplete: {
          const auto& request = reader.request;
          out += request.method + " " + request.target + (request.keep_alive ? " keep " : " close ") + request.body + "|";
          reader.reset();
          break;
        }
        default: break;
      }
    }
  }
  return out;
}

const std::string kHost = "Host: a\r\n";
const std::string kPost = "POST /echo HTTP/1.1\r\n" + kHost;
const std::string kChunked = kPost + "Transfer-Encoding: chunked\r\n\r\n";

}  // namespace

TEST_CASE("requests are read the same however the input is cut") {
  std::string input = "GET / HTTP/1.1\r\n" + kHost + "\r\n" + kPost + "Content-Length: 7\r\n\r\none two" + kChunked +
                      "3;note=x\r\nabc\r\nA\r\n0123456789\r\n0\r\nX-Trailer: 1\r\n\r\n\r\nGET /last HTTP/1.0\r\n\r\n";
  std::string expected = "GET / keep |POST /echo keep one two|POST /echo keep abc0123456789|GET /last close |";
  for (std::size_t piece = 1; piece <= input.size(); piece++) CHECK(story(input, piece) == expected);
}

TEST_CASE("heads that could smuggle a request are refused") {
  const std::vector<std::pair<std::string, int>> cases = {
      {kPost + "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", 400},
      {kPost + "Content-Length: 3, 3\r\n\r\nabc", 400},
      {kPost + "Content-Length: +3\r\n\r\nabc", 400},
      {kPost + "Content-Length : 3\r\n\r\nabc", 400},
      {kPost + "Content-Length:\r\n 3\r\n\r\nabc", 400},
      {kPost + "Content-Length: 99999999999999999999\r\n\r\n", 400},
      {kPost + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
      {kPost + "Transfer-Encoding: gzip, chunked\r\n\r\n", 501},
      {kPost + "Transfer-Encoding: xchunked\r\n\r\n", 501},
      {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
      {kPost + "X: y\nTransfer-Encoding: chunked\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\n" + kHost + kHost + "\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\n" + kHost + "X: 1\r\n 2\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\n" + kHost + "X\r: 1\r\n\r\n", 400},
      {"GET / HTTP/1.1\nHost: a\n\n", 400},
      {"GET / HTTP/1.1\r\n" + kHost + "Foo bar: 1\r\n\r\n", 400},
      {std::string("GET / HTTP/1.1\r\n") + kHost + std::string("X: a\0b\r\n\r\n", 10), 400},
  };
  for (const auto& [input, status] : cases) {
    INFO(input);
    for (std::size_t piece : {std::size_t{1}, std::size_t{2}, input.size()}) CHECK(story(input, piece) == "!" + std::to_string(status));
  }
}

TEST_CASE("request lines") {
  auto line = [](const std::string& text) { return story(text + "\r\n" + kHost + "\r\n", 1000); };
  for (const char* text :
       {"GET  / HTTP/1.1", "GET /  HTTP/1.1", "GET / HTTP/1.1 ", "GET\t/ HTTP/1.1", "GET /", "GET / http/1.1", "GET /\xff HTTP/1.1",
        "GET /a#b HTTP/1.1", "GET a HTTP/1.1", "G@T / HTTP/1.1", " GET / HTTP/1.1", "GET http:/// HTTP/1.1", "GET http://u@h/ HTTP/1.1"})
    CHECK(line(text) == "!400");
  for (const char* text : {"GET / HTTP/2.0", "GET / HTTP/1.2", "PRI * HTTP/2.0"}) CHECK(line(text) == "!505");
  for (const char* text : {"CONNECT a:1 HTTP/1.1", "TRACE / HTTP/1.1", "FOO / HTTP/1.1"}) CHECK(line(text) == "!501");
  CHECK(line("GET http://a:1/x HTTP/1.1") == "GET http://a:1/x keep |");
  CHECK(line("OPTIONS * HTTP/1.1") == "OPTIONS * keep |");
}

TEST_CASE("chunks") {
  for (const char* bad : {"3\r\nabcXY0\r\n\r\n", "3\rXabc\r\n", "0x3\r\nabc\r\n", "3 zz\r\nabc\r\n", "-1\r\n", "g\r\n",
                          "fffffffffffffffff\r\n", "3\nabc\r\n", "3\r\nabc\n0", "3\r\nabc\r\n0\r\nX : 1\r\n\r\n"})
    CHECK(story(kChunked + bad, 1) == "!400");
  CHECK(story(kChunked + "fffffffffffffff\r\n", 1) == "!413");
}

TEST_CASE("limits have statuses of their own") {
  Limits limits;
  limits.target = 20;
  limits.head = 100;
  limits.headers = 2;
  limits.body = 10;
  limits.trailers = 20;
  auto status = [&](const std::string& input) { return story(input, 1000, limits); };
  CHECK(status("GET /" + std::string(30, 'a') + " HTTP/1.1\r\n" + kHost + "\r\n") == "!414");
  CHECK(status("GET /" + std::string(200, 'a')) == "!414");
  CHECK(status("GET / HTTP/1.1\r\n" + kHost + "X: " + std::string(100, 'a') + "\r\n\r\n") == "!431");
  CHECK(status("GET / HTTP/1.1\r\n" + kHost + "A: 1\r\nB: 1\r\n\r\n") == "!431");
  CHECK(status(kPost + "Content-Length: 11\r\n\r\n") == "!413");
  CHECK(status(kChunked + "b\r\n") == "!413");
  CHECK(status(kChunked + "6\r\nabcdef\r\n6\r\n") == "!413");
  CHECK(status(kChunked + "0\r\nX: " + std::string(30, 'a') + "\r\n\r\n") == "!431");
  CHECK(story(kPost + "Expect: x\r\nContent-Length: 1\r\n\r\nx", 1000) == "!417");
}

TEST_CASE("path of a target") {
  troupe::gateway::HttpRequest request;
  for (auto [target, path] : std::vector<std::pair<std::string, std::string>>{
           {"/a/b?c=/d", "/a/b"}, {"http://h:1/a?b", "/a"}, {"http://h", "/"}, {"http://h?x", "/"}, {"/a://b", "/a://b"}, {"*", "*"}}) {
    request.target = target;
    CHECK(request.path() == path);
  }
}
