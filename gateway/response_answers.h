// How a response of the Responses API is told over HTTP: ResponseAnswer waits for its end and answers once, with the object;
// ResponseStream sends its events as SSE, from the first or from where a dropped stream stopped. Owned by their connection, loop thread.
// Invariants: no status line before the response has begun or was refused; a stream ends behind the run's terminal event; events wait
// in the run, not in the connection's output.
#pragma once
#include "gateway/response_run.h"
#include "gateway/service.h"
#include "gateway/stream_ping.h"

#include <memory>

namespace troupe::gateway {

class ResponseAnswer final : public Exchange, public ResponseReader {
 public:
  ResponseAnswer(Service& service, Connection& connection, std::shared_ptr<ResponseRun> run);

  void hung_up() override { cursor_.reset(); }
  void cut_short() override;
  void more() override;

 private:
  Service& service_;
  Connection& connection_;
  std::unique_ptr<EventCursor> cursor_;
};

class ResponseStream final : public Exchange, public ResponseReader {
 public:
  /// `next`: number of the first event to send.
  ResponseStream(Service& service, Connection& connection, std::shared_ptr<ResponseRun> run, std::uint64_t next);

  void hung_up() override { cursor_.reset(); }
  void writable() override;
  void tick(std::uint64_t now) override;
  void cut_short() override;
  void more() override { pump(); }
  /// Sends what there is, as far as there is room; with `all` without regard to that.
  void pump(bool all = false);

 private:
  Service& service_;
  Connection& connection_;
  std::unique_ptr<EventCursor> cursor_;
  StreamPing ping_;
  bool begun_ = false;
  bool over_ = false;
};

}  // namespace troupe::gateway
