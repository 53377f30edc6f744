// bound_tcp_silence: a network that swallows packets tells nobody; the kernel would repeat them for a quarter of an hour. With this, a
// connection whose other end has acknowledged nothing for a while ends with an error, which UCX hands on as a peer that is lost. The
// kernels acknowledge, not the ranks: a rank that computes for long is not taken for a lost one. Stateless; any thread.
#pragma once
#include <chrono>
#include <string>

namespace troupe::collective {

/// For this process's present TCP connections over `interface`; where the kernel refuses, nothing changes.
void bound_tcp_silence(const std::string& interface, std::chrono::milliseconds silence);

}  // namespace troupe::collective
