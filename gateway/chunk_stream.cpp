// See chunk_stream.h.
#include "gateway/chunk_stream.h"

#include "gateway/answer_json.h"
#include "gateway/error_body.h"
#include "gateway/server.h"

#include <utility>

namespace troupe::gateway {

ChunkStream::ChunkStream(Service& service, Connection& connection, std::string_view id_prefix, std::string_view object,
                         std::string_view model, bool usage)
    : service_(service), connection_(connection), usage_(usage), ping_(service.now(), service.limits().sse_ping_ms) {
  prefix_ = "{\"id\":\"" + random_id(id_prefix) + "\"," + named_string("object", object) + ",\"created\":" + std::to_string(unix_time()) +
            "," + named_string("model", model) + ",\"system_fingerprint\":null,\"choices\":[";
}

void ChunkStream::begin() {
  if (std::exchange(begun_, true)) return;
  connection_.begin_stream("text/event-stream");
  ping_.event_sent(service_.now());
  if (!waiting_.empty()) connection_.stream(std::exchange(waiting_, {}));
}

void ChunkStream::write(std::string_view choices) { write_chunk(choices, "null"); }

void ChunkStream::write_chunk(std::string_view choices, std::string_view usage) {
  std::string event = "data: " + prefix_;
  event += choices;
  event += ']';
  if (usage_) event.append(",\"usage\":").append(usage);  // on all events, so that clients need not guess
  event += "}\n\n";
  if (!begun_) {
    waiting_ += event;
    return;
  }
  connection_.stream(event);
  ping_.event_sent(service_.now());
}

void ChunkStream::tick(std::uint64_t now) {
  if (begun_) ping_.tick(connection_, now);
}

void ChunkStream::end(const nlohmann::json& usage) {
  begin();
  if (usage_) write_chunk("", to_text(usage));
  connection_.stream("data: [DONE]\n\n");
  connection_.end_stream();
}

void ChunkStream::fail(const Error& error) {
  if (!begun_) return service_.answer_error(connection_, error);
  connection_.stream("data: " + error_body(error) + "\n\ndata: [DONE]\n\n");
  connection_.end_stream();
}

std::string chunk_choice(std::size_t index, std::string_view content, std::string_view logprobs, std::string_view reason) {
  std::string out = "{\"index\":" + std::to_string(index) + ",";
  out += content;
  out += ",\"logprobs\":";
  out += logprobs.empty() ? "null" : logprobs;
  out += ",\"finish_reason\":";
  if (reason.empty())
    out += "null";
  else
    append_json_string(out, reason);
  return out + "}";
}

std::string named_string(std::string_view name, std::string_view text) {
  std::string out(1, '"');
  out.append(name).append("\":");
  append_json_string(out, text);
  return out;
}

}  // namespace troupe::gateway
