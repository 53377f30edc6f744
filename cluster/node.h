// Node: the root of composition. Builds one process from its options: model file -> tokenizer and template -> the company of actors
// -> the gateway, and joins them. Everything is handed down from here; nothing below looks anything up.
// make() and run() belong to one thread, which becomes the gateway's loop; drain() may be called by any thread.
// Invariant: run() returns once, after the last connection is gone, with the exit code of the process.
#pragma once
#include "cluster/cluster_plan.h"
#include "cluster/options.h"
#include "cluster/served_model.h"
#include "messages/error.h"
#include "runtime/exec/shard_engine.h"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace troupe::cluster {

/// A node whose model can be used.
struct ReadyNode {
  const ServedModel& model;
  const exec::ShardFacts& facts;
  const std::string& url;
  bool codec_kept = false;  // by an earlier start that measured it
};

/// What happens to a node, told from any thread; the functions must not block.
struct NodeEvents {
  std::function<void(std::size_t done, std::size_t total)> on_load_progress;  // bytes
  std::function<void(const ReadyNode& node)> on_ready;
  std::function<void(int signals)> on_signal;               // 1st, 2nd ... SIGTERM or SIGINT
  std::function<void(const std::string& reason)> on_fatal;  // nothing is left to serve; run() will return
};

/// Instead of an engine that loads the model itself: tests and benchmarks bring their own.
using EngineFactory = std::function<std::unique_ptr<exec::ShardEngine>()>;

class Node {
 public:
  /// Opens the model, binds the listener, begins to load. Until it is loaded the API answers 503. Errors: everything a user can get
  /// wrong, in one line. `handle_signals`: SIGTERM and SIGINT drain within the options' grace time, a second one at once.
  /// With a `cluster`, its ranks are processes that this one starts; else the only rank is in this process.
  static Result<std::unique_ptr<Node>> make(const Options& options, NodeEvents events, bool handle_signals, EngineFactory make_engine = {},
                                            std::optional<ClusterPlan> cluster = {});
  ~Node();  // after run(): waits for the actors
  const ServedModel& model() const;
  std::string url() const;
  /// The loop. 0 after a drain, else the exit code of the fault; after a fault the caller ends the process with std::_Exit, since a
  /// compute thread may never return.
  int run();
  void drain(std::chrono::milliseconds grace);

 private:
  struct Parts;
  explicit Node(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace troupe::cluster
