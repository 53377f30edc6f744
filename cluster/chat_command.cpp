// See chat_command.h.
#include "cluster/chat_command.h"
#include "cluster/terminal.h"

#include <cstdio>
#include <iostream>
#include <string>
#include <unistd.h>

namespace troupe::cluster {
namespace {

/// Asks once and prints the answer as it comes. False: the error was printed.
bool ask(ChatClient& client, const std::string& question, bool notes) {
  forget_interrupt();
  const auto turn = print_answer(client, question);
  if (!turn) return false;
  if (notes && turn->finish_reason == "cancelled") std::fprintf(stderr, "(stopped)\n");
  if (notes && turn->finish_reason == "length") std::fprintf(stderr, "(the limit of tokens was reached)\n");
  return true;
}

int converse(ChatClient& client, const std::string& with) {
  const bool terminal = isatty(STDIN_FILENO) == 1;
  if (terminal) std::fprintf(stderr, "Chat with %s. /new starts anew, /quit or Ctrl-D ends, Ctrl-C stops an answer.\n", with.c_str());
  bool good = true;
  for (;;) {
    if (terminal) std::fputs("\n> ", stderr);
    forget_interrupt();
    std::string question;
    if (!std::getline(std::cin, question)) break;
    if (question == "/quit" || question == "/exit") break;
    if (question.empty()) continue;
    if (question == "/new") {
      client.forget();
      continue;
    }
    good = ask(client, question, terminal);
  }
  if (terminal) std::fputs("\n", stderr);
  return good ? 0 : 1;  // of a script's last question
}

}  // namespace

int run_chat(const Options& options) {
  const auto server = reach_server(options, "chat");
  if (!server) return print_fault(server.error().client_text);
  catch_interrupts();
  ChatClient client(server->address, chat_settings(options));
  return converse(client, server->shown_name);
}

}  // namespace troupe::cluster
