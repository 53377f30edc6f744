// ResponsesSocket: one WebSocket in Responses mode. Reads client events, runs at most one turn a lane (stream_id), keeps the socket
// open over every error of a request. Owned by its connection; loop thread.
#pragma once
#include "gateway/responses_turn.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace troupe::gateway {

class ResponsesSocket final : public Exchange {
 public:
  ResponsesSocket(Service& service, Connection& connection, Caller caller);

  void hung_up() override;
  void writable() override;
  void message(WsOpcode opcode, std::string&& text) override;
  bool busy() const override { return !turns_.empty(); }
  void cut_short() override;

 private:
  void on_event(const nlohmann::json& event);
  void create(const nlohmann::json& event);
  void cancel(const nlohmann::json& event);
  void send_error(const Error& error, const std::string& lane);
  void turn_over(const std::string& lane);

  Service& service_;
  Connection& connection_;
  Caller caller_;
  std::map<std::string, std::unique_ptr<ResponsesTurn>> turns_;  // by lane
  std::vector<std::unique_ptr<ResponsesTurn>> ended_;            // perhaps on the call stack: freed at the next event
};

}  // namespace troupe::gateway
