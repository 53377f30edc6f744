// ResponsesTurn: one response on a Responses WebSocket, from response.create to its terminal event. It turns the engine's deltas into
// the event sequence of the Responses API: created, in_progress, for each output item added ... done, then exactly one of
// response.completed, response.incomplete, response.failed. Owned by its ResponsesSocket; loop thread.
#pragma once
#include "gateway/responses_request.h"
#include "gateway/service.h"

#include <functional>
#include <string>

namespace troupe::gateway {

class ResponsesTurn final : public EngineSink {
 public:
  /// `send` writes one event; `over` is called once, last, after the terminal event or a refusal was sent. It may not delete the turn
  /// at once: the turn is still on the stack.
  struct Hooks {
    std::function<void(std::string event)> send;
    std::function<void()> over;
  };
  ResponsesTurn(Service& service, ResponsesRequest request, Hooks hooks);

  const std::string& response_id() const { return request_.engine.response_id; }
  /// The caller wants no more of it: ends with what there is.
  void cancel() { call_.cancel(); }
  void hung_up() { call_.cancel_silently(); }
  void cut_short(const Error& error);
  /// Deltas taken since the last call; their credit goes back.
  void grant_owed();

  void admitted(messages::RequestAdmitted::Reader message) override;
  void delta(messages::TokenDelta::Reader message) override;
  void finished(messages::RequestFinished::Reader message) override;

 private:
  enum class Kind { kMessage, kReasoning, kFunctionCall };
  struct Item {
    Kind kind;
    std::uint16_t number;  // DeltaPiece.item
    std::string id;
    std::string name;     // function call
    std::string call_id;  // function call
    std::string text;     // output text, reasoning, or arguments
    nlohmann::json logprobs = nlohmann::json::array();
    bool done = false;
  };
  void begin();
  void emit(std::string_view type, nlohmann::json fields);
  void emit_response(std::string_view type, std::string_view status, nlohmann::json changes);
  void write_piece(messages::DeltaPiece::Reader piece);
  void emit_delta(const Item& item, std::string_view text, const nlohmann::json& logprobs);
  Item& item_for(Kind kind, std::uint16_t number, bool opens, std::string_view name);
  void open_item(Item& item);
  void close_item(std::string_view status);
  nlohmann::json item_json(const Item& item, std::string_view status) const;
  nlohmann::json part_json(const Item& item, bool whole) const;
  void end_with_error(const Error& error);

  Service& service_;
  ResponsesRequest request_;
  Hooks hooks_;
  std::int64_t created_at_;
  std::vector<Item> items_;
  std::string item_status_ = "completed";
  std::uint64_t sequence_number_ = 0;
  std::uint32_t owed_ = 0;
  bool begun_ = false;
  EngineCall call_;
};

/// {"type":"error","status":...,"error":{...},"stream_id":...}: an error that leaves the socket open.
std::string error_event(const Error& error, const std::string& lane);

}  // namespace troupe::gateway
