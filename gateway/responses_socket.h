// ResponsesSocket: one WebSocket in Responses mode. Reads client events, runs at most one response a lane (stream_id), keeps the socket
// open over every error of a request. Owned by its connection; loop thread. Invariants: events wait in their runs, not in the socket's
// output, of which there is little at any time, so that pongs and short lanes are not held up by long ones.
#pragma once
#include "gateway/response_run.h"
#include "gateway/service.h"

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
  bool busy() const override { return !lanes_.empty(); }
  void cut_short() override;

 private:
  struct Lane final : ResponseReader {
    Lane(ResponsesSocket& of, std::string called) : socket(of), name(std::move(called)) {}
    void more() override { socket.pump(); }
    ResponsesSocket& socket;
    const std::string name;
    std::unique_ptr<EventCursor> cursor;
  };
  void on_event(const JsonBody& event);
  void create(const JsonBody& event);
  void cancel(const nlohmann::json& event);
  void send_error(const Error& error, const std::string& lane);
  /// Writes events of all lanes in turns while there is room, or all there are with `all`.
  void pump(bool all = false);
  bool write_one(Lane& lane);

  Service& service_;
  Connection& connection_;
  Caller caller_;
  std::map<std::string, std::unique_ptr<Lane>> lanes_;
  std::string last_served_;                   // lane of the last event written
  std::vector<std::unique_ptr<Lane>> ended_;  // perhaps on the call stack: freed at the next event
};

/// {"type":"error","status":...,"error":{...},"stream_id":...}: an error that leaves the socket open.
std::string error_event(const Error& error, const std::string& lane);

}  // namespace troupe::gateway
