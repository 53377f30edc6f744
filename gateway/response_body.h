// ResponseBody: one object of the Responses API while it grows, and the events that tell of it. It turns the engine's deltas into
// created, queued where others wait before it, in_progress; for each output item added ... done; then exactly one of response.completed,
// response.incomplete, response.failed. Pure; owned by its ResponseRun, loop thread.
#pragma once
#include "gateway/responses_request.h"
#include "messages/error.h"
#include "messages/request.capnp.h"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::gateway {

class ResponseBody {
 public:
  /// Takes one event; `type` is a literal. Empty: nobody wants events, and none are made.
  using Emit = std::function<void(std::string_view type, std::string json)>;
  ResponseBody(std::string id, const ResponsesRequest& request, Emit emit);

  bool begun() const { return begun_; }
  bool ended() const { return ended_; }
  /// The request was admitted; `queued`: others wait before it.
  void begin(bool queued);
  void delta(messages::TokenDelta::Reader message);
  /// The engine's end; also for an error.
  void finish(messages::RequestFinished::Reader message);
  void fail(const Error& error);
  /// Bytes of texts and log-probabilities so far.
  std::size_t bytes() const { return bytes_; }
  /// The response object as it is now, as JSON text.
  std::string object() const;

 private:
  enum class Kind { kMessage, kReasoning, kFunctionCall };
  struct Item {
    Kind kind;
    std::uint16_t number;  // DeltaPiece.item
    std::string id;
    std::string name;      // function call
    std::string call_id;   // function call
    std::string text;      // output text, reasoning, or arguments
    std::string logprobs;  // JSON entries as text: a tree weighs ten times as much
    std::string_view status = "in_progress";
  };
  void start();
  void emit(std::string_view type, nlohmann::json fields);
  void emit_response(std::string_view type);
  void write_piece(messages::DeltaPiece::Reader piece);
  void emit_delta(const Item& item, std::string_view text, std::string_view logprobs);
  Item& item_for(Kind kind, std::uint16_t number, bool opens, std::string_view name);
  void open_item(const Item& item);
  void close_item(std::string_view status);
  nlohmann::json item_json(const Item& item, bool whole) const;
  nlohmann::json part_json(const Item& item, bool whole) const;
  void end(std::string_view type, std::string_view status);

  Emit emit_;
  std::string id_;
  std::string model_;
  std::string echoed_;  // members of the object as JSON text, with the brace behind them: a tree costs ten times as much in each event
  bool generate_;
  bool wants_logprobs_;
  std::int64_t created_at_;
  std::vector<Item> items_;
  std::size_t bytes_ = 0;
  std::string_view status_ = "in_progress";
  nlohmann::json error_, incomplete_, usage_;  // null until the end
  nlohmann::json store_error_;                 // null unless it is not kept as it was to be
  std::int64_t completed_at_ = 0;              // 0 = not completed
  std::uint64_t sequence_number_ = 0;
  bool begun_ = false;
  bool started_ = false;
  bool ended_ = false;
};

}  // namespace troupe::gateway
