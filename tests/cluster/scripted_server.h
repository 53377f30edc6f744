// A server on a loopback socket that sends prepared bytes: for tests of the clients.
#pragma once
#include "cluster/http_stream.h"

#include <catch2/catch.hpp>

#include <arpa/inet.h>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace troupe::cluster::testing {

/// Answers each connection with the next of its texts, in pieces of `step` bytes, and keeps what was asked.
class ScriptedServer {
 public:
  explicit ScriptedServer(std::vector<std::string> answers, std::size_t step = 1 << 20) : answers_(std::move(answers)), step_(step) {
    listener_ = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(listen(listener_, 8) == 0);
    socklen_t size = sizeof address;
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    server_ = {"127.0.0.1", std::to_string(ntohs(address.sin_port)), ""};
    thread_ = std::thread([this] { serve(); });
  }
  ~ScriptedServer() { join(); }
  const ServerAddress& address() const { return server_; }
  const std::vector<std::string>& requests() {
    join();
    return requests_;
  }

 private:
  void join() {
    if (thread_.joinable()) {
      shutdown(listener_, SHUT_RDWR);
      thread_.join();
      close(listener_);
    }
  }
  void serve() {
    for (const std::string& answer : answers_) {
      const int peer = accept(listener_, nullptr, nullptr);
      if (peer < 0) return;
      std::string request;
      char buffer[4096];
      while (!complete(request)) {
        const ssize_t got = recv(peer, buffer, sizeof buffer, 0);
        if (got <= 0) break;
        request.append(buffer, static_cast<std::size_t>(got));
      }
      requests_.push_back(request);
      for (std::size_t at = 0; at < answer.size(); at += step_) {
        const std::string piece = answer.substr(at, step_);
        if (send(peer, piece.data(), piece.size(), MSG_NOSIGNAL) < 0) break;
      }
      close(peer);
    }
  }
  static bool complete(const std::string& request) {
    const auto end = request.find("\r\n\r\n");
    if (end == std::string::npos) return false;
    const auto at = request.find("Content-Length: ");
    const std::size_t length = at < end ? std::stoul(request.substr(at + 16)) : 0;
    return request.size() >= end + 4 + length;
  }

  std::vector<std::string> answers_;
  std::size_t step_;
  std::vector<std::string> requests_;
  int listener_ = -1;
  ServerAddress server_;
  std::thread thread_;
};

}  // namespace troupe::cluster::testing
