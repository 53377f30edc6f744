// ChatClient: a conversation with a server's /v1/chat/completions, streamed. One thread. Keeps the messages; a failed or stopped
// turn leaves the conversation as if the question had not been asked, respectively as far as the answer went.
#pragma once
#include "cluster/http_stream.h"
#include "messages/error.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace troupe::cluster {

struct ChatSettings {
  std::string api_key;
  std::string system_prompt;
  std::uint64_t max_tokens = 0;  // 0: no limit but the context
  double temperature = 0.7;
  std::uint64_t seed = 0;  // 0: none
  bool raw = false;        // the question is continued as it is, by /v1/completions; nothing is remembered
};

struct ChatTurn {
  std::string text;
  std::string finish_reason;  // "stop", "length", "cancelled" (by `stop_wanted`)
  std::uint64_t prompt_tokens = 0, cached_tokens = 0, output_tokens = 0;
};

class ChatClient {
 public:
  ChatClient(ServerAddress server, ChatSettings settings);
  /// Asks and streams the answer to `on_text`; looks at `stop_wanted` between pieces and after a signal.
  Result<ChatTurn> ask(const std::string& question, const std::function<void(std::string_view)>& on_text,
                       const std::function<bool()>& stop_wanted);
  void forget();  // a new conversation

 private:
  struct Message {
    std::string role, content;
  };
  /// Name of the server's (first) model, asked for once.
  Status find_model();
  std::string request_body() const;
  Result<ChatTurn> stream(const std::function<void(std::string_view)>& on_text, const std::function<bool()>& stop_wanted);
  ServerAddress server_;
  ChatSettings settings_;
  std::string model_;
  std::vector<Message> messages_;
};

}  // namespace troupe::cluster
