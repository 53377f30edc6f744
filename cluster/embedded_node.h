// EmbeddedNode: a node inside this process for `troupe chat MODEL` and `troupe bench`: serves on a free loopback port, with its loop in a
// thread of its own; drained at the end. Owned by the command's thread.
#pragma once
#include "cluster/node.h"
#include "cluster/start_report.h"

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <thread>

namespace troupe::cluster {

class EmbeddedNode {
 public:
  /// Returns when the model can be used. Errors: as Node::make, and whatever ended the start.
  static Result<std::unique_ptr<EmbeddedNode>> start(const Options& options, EngineFactory make_engine = {});
  ~EmbeddedNode();
  std::string url() const { return node_->url(); }
  const ServedModel& model() const { return node_->model(); }

 private:
  void settle(const std::string& fault);

  StartReport report_;
  std::promise<std::string> settled_;
  std::atomic<bool> done_{false};
  std::unique_ptr<Node> node_;
  std::thread loop_;
  std::atomic<int> exit_code_{0};
};

}  // namespace troupe::cluster
