// TpServer: one server of two ranks, started by `troupe launch` with a cluster file made for it: each rank at one end of a ShapedLink, on
// a core of its own. Owned by the suite, its thread. Invariant: its processes are gone when it is gone.
#pragma once
#include "cluster/bench/load_client.h"
#include "cluster/bench/program.h"
#include "messages/error.h"

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace troupe::cluster::bench {

struct TpServerSpec {
  std::string name;  // of its files and its cluster
  std::filesystem::path model, folder;
  std::string codec, overlap;  // as the options
  std::string activations, kv_format, isa;
  std::vector<unsigned> cores;  // one a rank
};
/// The cluster file.
std::string tp_cluster_text(const TpServerSpec& spec);

class TpServer {
 public:
  static constexpr std::uint32_t kRanks = 2;
  /// Returns when the model can be used. Errors: whatever ended the start.
  static Result<std::unique_ptr<TpServer>> start(const TpServerSpec& spec, const std::atomic<bool>& stop);
  /// A greedy completion of token ids. Error: of the call.
  Result<CallResult> ask(const std::vector<TokenId>& prompt, std::uint32_t max_tokens);
  /// Of /metrics; 0: the server does not tell it.
  double metric(const std::string& name) const;
  /// Row of the codec table, as its start report tells it; empty: it does not.
  std::string codec() const;
  /// Ends it; its traces are whole then.
  void end();
  /// Of each rank; see wire_trace.h.
  std::filesystem::path trace() const { return base_.string() + ".trace"; }

 private:
  TpServer(RunningProgram program, ServerAddress address, std::filesystem::path base, const std::atomic<bool>& stop);
  RunningProgram program_;
  ServerAddress address_;
  std::filesystem::path base_;  // of the names of its files
  const std::atomic<bool>& stop_;
  LoadClient client_;
};

}  // namespace troupe::cluster::bench
