// What `troupe chat` and `troupe run` share: a server to talk to, Ctrl-C, and an answer that is printed as it comes. Main thread only.
#pragma once
#include "cluster/chat_client.h"
#include "cluster/embedded_node.h"
#include "cluster/options.h"

#include <memory>
#include <string>

namespace troupe::cluster {

/// The server at --url, or MODEL in this process for as long as this lives.
struct ReachedServer {
  std::unique_ptr<EmbeddedNode> embedded;  // null: another process
  ServerAddress address;
  std::string shown_name;
};
/// `command` for the hint where neither or both are given.
Result<ReachedServer> reach_server(const Options& options, const std::string& command);

/// What the options say of the questions to come.
ChatSettings chat_settings(const Options& options);

/// From now on Ctrl-C is noted, and a write to a closed pipe is an error, not the end of the process.
void catch_interrupts();
bool was_interrupted();
void forget_interrupt();

/// Asks, and prints the answer and a line break to standard output. A fault is printed to standard error, too.
Result<ChatTurn> print_answer(ChatClient& client, const std::string& question);
/// Prints "troupe: <text>" to standard error; returns the exit code 1.
int print_fault(const std::string& text);

}  // namespace troupe::cluster
