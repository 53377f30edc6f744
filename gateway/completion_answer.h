// The two ways to answer a completion: CompletionAnswer gathers everything and answers once, CompletionStream sends each delta as an SSE
// event. Each prompt is a request of its own at the engine. Owned by their connection, loop thread. Invariants: no status line before every
// prompt is admitted or one is refused; the first failure ends them all; a stream that began ends with a finish reason for each choice or
// with one error event, and then "[DONE]".
#pragma once
#include "gateway/answer_json.h"
#include "gateway/chunk_stream.h"
#include "gateway/completion_request.h"
#include "gateway/service.h"

#include <memory>
#include <string>
#include <vector>

namespace troupe::gateway {

/// OpenAI's log-probabilities of a completion while they come in: {"tokens", "token_logprobs", "top_logprobs", "text_offset"}.
/// text_offset counts characters of the choice's text, an echoed prompt included. Kept as text: a JSON tree weighs ten times as much.
class CompletionLogprobs {
 public:
  /// The token itself is always among its alternatives, as OpenAI has it; so there may be `most` + 1.
  void add(messages::DeltaPiece::Reader piece, unsigned most);
  std::size_t size() const { return tokens_.size() + values_.size() + top_.size() + offsets_.size(); }
  std::string json() const;

 private:
  std::string tokens_, values_, top_, offsets_;
};

class CompletionExchange : public Exchange {
 public:
  CompletionExchange(Service& service, Connection& connection, CompletionRequest request);
  void hung_up() override { cancel(); }
  void cut_short() override;

 protected:
  /// Hands the prompts to the engine; the last thing a constructor does.
  void submit();
  virtual void all_admitted() {}
  virtual void piece(std::size_t choice, messages::DeltaPiece::Reader piece) = 0;
  virtual void delta_taken(std::size_t prompt) = 0;
  virtual void prompt_finished(std::size_t prompt, messages::RequestFinished::Reader message) = 0;
  virtual void all_finished() = 0;
  /// Tells the client; nothing comes after it.
  virtual void fail(const Error& error) = 0;
  void give_up(const Error& error);
  void grant(std::size_t prompt, std::uint32_t deltas) { parts_[prompt]->call.grant(deltas); }
  const ModelRequest& model_request() const { return request_.prompts.front(); }

  Service& service_;
  Connection& connection_;
  CompletionRequest request_;
  UsageTotals usage_;

 private:
  /// One prompt under way.
  struct Part final : EngineSink {
    Part(CompletionExchange& exchange, std::size_t prompt_index);
    void admitted(messages::RequestAdmitted::Reader) override { owner.part_admitted(*this); }
    void delta(messages::TokenDelta::Reader message) override { owner.part_delta(*this, message); }
    void finished(messages::RequestFinished::Reader message) override { owner.part_finished(*this, message); }
    CompletionExchange& owner;
    std::size_t index;
    bool is_admitted = false;
    EngineCall call;
  };
  void part_admitted(Part& part);
  void part_delta(Part& part, messages::TokenDelta::Reader message);
  void part_finished(Part& part, messages::RequestFinished::Reader message);
  void cancel();

  std::vector<std::unique_ptr<Part>> parts_;
  std::size_t admitted_ = 0, finished_ = 0;
  bool over_ = false;
};

class CompletionAnswer final : public CompletionExchange {
 public:
  CompletionAnswer(Service& service, Connection& connection, CompletionRequest request);

 private:
  struct Choice {
    std::string text;
    CompletionLogprobs logprobs;
    std::string prompt_logprobs;  // JSON text
    std::string_view reason;
  };
  void piece(std::size_t choice, messages::DeltaPiece::Reader piece) override;
  void delta_taken(std::size_t prompt) override { grant(prompt, 1); }
  void prompt_finished(std::size_t prompt, messages::RequestFinished::Reader message) override;
  void all_finished() override;
  void fail(const Error& error) override;
  std::string choice_text(const Choice& choice, std::size_t index) const;

  std::vector<Choice> choices_;
  std::size_t gathered_ = 0;  // bytes
};

class CompletionStream final : public CompletionExchange {
 public:
  CompletionStream(Service& service, Connection& connection, CompletionRequest request);
  void writable() override;
  void tick(std::uint64_t now) override { chunks_.tick(now); }

 private:
  void all_admitted() override {
    begun_ = true;
    chunks_.begin();
  }
  void piece(std::size_t choice, messages::DeltaPiece::Reader piece) override;
  void delta_taken(std::size_t prompt) override { owed_[prompt]++; }
  void prompt_finished(std::size_t prompt, messages::RequestFinished::Reader message) override;
  void all_finished() override { chunks_.end(usage_.chat()); }
  void fail(const Error& error) override { chunks_.fail(error); }

  std::vector<std::uint32_t> owed_;  // by prompt: deltas taken whose credit has not gone back
  ChunkStream chunks_;               // those of prompts that were quicker than the admission of others wait in it
  bool begun_ = false;
};

}  // namespace troupe::gateway
