// See serve_command.h.
#include "cluster/serve_command.h"
#include "cluster/node.h"
#include "cluster/start_report.h"

#include <cstdlib>
#include <string>

namespace troupe::cluster {

int run_serve(const Options& options) {
  StartReport report;

  NodeEvents events;
  events.on_load_progress = [&](std::size_t done, std::size_t total) { report.progress(done, total); };
  events.on_ready = [&](const ReadyNode& ready) { report.ready(options, ready); };
  events.on_signal = [&](int signals) {
    if (signals == 1)
      report.line("stopping: running requests have " + std::to_string(options.grace_seconds) + " s to finish (again to stop at once)");
  };
  events.on_fatal = [&](const std::string& reason) { report.line("troupe: " + reason); };

  auto node = Node::make(options, events, true);
  if (!node) {
    report.line("troupe: " + node.error().client_text);
    return 1;
  }
  const int exit_code = (*node)->run();
  if (exit_code != 0) std::_Exit(exit_code);  // a compute thread may hang for ever: nothing can be taken down in order
  return 0;
}

}  // namespace troupe::cluster
