// See embedded_node.h.
#include "cluster/embedded_node.h"
#include "messages/error_reasons.h"

#include <cstdlib>
#include <pthread.h>

namespace troupe::cluster {

Result<std::unique_ptr<EmbeddedNode>> EmbeddedNode::start(const Options& options, EngineFactory make_engine) {
  auto embedded = std::make_unique<EmbeddedNode>();
  Options own = options;
  own.hosts = {"127.0.0.1"};
  own.port = 0;
  own.api_key_file.clear();
  own.admin_key_file.clear();
  own.system_prompts_file.clear();
  own.tls_cert.clear();
  own.tls_key.clear();
  NodeEvents events;
  events.on_load_progress = [e = embedded.get()](std::size_t done, std::size_t total) { e->report_.progress(done, total); };
  events.on_ready = [e = embedded.get()](const ReadyNode&) { e->settle(""); };
  events.on_fatal = [e = embedded.get()](const std::string& reason) { e->settle(reason); };
  auto node = Node::make(own, events, false, std::move(make_engine));
  if (!node) return node.error();
  embedded->node_ = std::move(*node);
  embedded->loop_ = std::thread([e = embedded.get()] {
    pthread_setname_np(pthread_self(), "gateway");
    e->exit_code_ = e->node_->run();
  });
  const std::string fault = embedded->settled_.get_future().get();
  embedded->report_.clear();
  if (!fault.empty()) return make_error(ErrorClass::kUnavailable, ErrorReason::kUnclassified, fault);
  return embedded;
}

EmbeddedNode::~EmbeddedNode() {
  if (node_) node_->drain(std::chrono::milliseconds(1));
  if (loop_.joinable()) loop_.join();
  if (exit_code_ != 0) std::_Exit(1);  // see Node::run
}

void EmbeddedNode::settle(const std::string& fault) {
  if (!done_.exchange(true))
    settled_.set_value(fault);
  else if (!fault.empty())
    report_.line("troupe: " + fault);
}

}  // namespace troupe::cluster
