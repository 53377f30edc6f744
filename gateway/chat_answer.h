// The two ways to answer a chat completion: ChatAnswer gathers everything and answers once, ChatStream sends each delta as an SSE
// event. Owned by their connection, loop thread. Invariants: no status line before RequestAdmitted or a refusal; a stream that
// began ends with a finish reason for each choice or with one error event, and then "[DONE]".
#pragma once
#include "gateway/chat_request.h"
#include "gateway/chunk_stream.h"
#include "gateway/service.h"

#include <optional>
#include <string>
#include <vector>

namespace troupe::gateway {

/// A tool call of one choice while it is generated.
struct ToolCallText {
  std::uint16_t item = 0;  // index of the output item
  std::string id;
  std::string name;
  std::string arguments;
};

class ChatAnswer final : public Exchange, public EngineSink {
 public:
  ChatAnswer(Service& service, Connection& connection, ChatRequest request);

  void hung_up() override { call_.cancel_silently(); }
  void cut_short() override;
  void admitted(messages::RequestAdmitted::Reader) override {}
  void delta(messages::TokenDelta::Reader message) override;
  void finished(messages::RequestFinished::Reader message) override;

 private:
  struct Choice {
    std::string text;
    std::string reasoning;
    std::vector<ToolCallText> calls;
    std::string logprobs;  // JSON entries as text: a tree weighs ten times as much
  };
  std::string choice_text(const Choice& choice, std::size_t index, std::string_view reason) const;
  void give_up(const Error& error);

  Service& service_;
  Connection& connection_;
  ChatRequest request_;
  std::string id_;
  std::vector<Choice> choices_;
  std::size_t gathered_ = 0;  // bytes
  EngineCall call_;
};

class ChatStream final : public Exchange, public EngineSink {
 public:
  ChatStream(Service& service, Connection& connection, ChatRequest request);

  void hung_up() override { call_.cancel_silently(); }
  void writable() override;
  void tick(std::uint64_t now) override { chunks_.tick(now); }
  void cut_short() override;
  void admitted(messages::RequestAdmitted::Reader) override { chunks_.begin(); }
  void delta(messages::TokenDelta::Reader message) override;
  void finished(messages::RequestFinished::Reader message) override;

 private:
  struct Choice {
    bool begun = false;
    std::vector<ToolCallText> calls;  // names and arguments are not kept, only which item has which index
  };
  void write_piece(messages::DeltaPiece::Reader piece);
  void begin_choice(std::size_t index);
  std::string tool_delta(Choice& choice, messages::DeltaPiece::Reader piece);

  ChatRequest request_;
  ChunkStream chunks_;
  std::vector<Choice> choices_;
  std::uint32_t owed_ = 0;  // deltas taken whose credit has not gone back
  EngineCall call_;
};

}  // namespace troupe::gateway
