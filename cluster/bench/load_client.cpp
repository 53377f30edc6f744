// See load_client.h. Sockets connect blocking (the server listens, so that is one round trip) and are read without blocking.
#include "cluster/bench/load_client.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace troupe::cluster::bench {
namespace {

using nlohmann::json;

constexpr int kPollMs = 100;  // how soon `stop` and time limits are seen
constexpr std::size_t kLongestError = 300;

std::uint64_t count_of(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
}

std::string dumped(const json& body) { return body.dump(-1, ' ', false, json::error_handler_t::replace); }

/// Text of a choice, or of its delta, whatever this server calls it.
std::string piece_of(const json& choice) {
  if (!choice.is_object()) return {};
  if (const auto text = choice.find("text"); text != choice.end() && text->is_string()) return text->get<std::string>();
  const auto delta = choice.find("delta");
  if (delta == choice.end() || !delta->is_object()) return {};
  for (const char* key : {"content", "reasoning_content", "reasoning"})
    if (const auto found = delta->find(key); found != delta->end() && found->is_string())
      if (const auto& text = found->get_ref<const std::string&>(); !text.empty()) return text;
  return {};
}

/// Tokens by tier, as Troupe reports them beside the counts that all servers have.
TierTokens tiers_of(const json& usage, const json& details) {
  for (const auto& [object, name] : {std::pair{&usage, "cache"}, std::pair{&details, "cache_report"}})
    if (const auto report = object->find(name); report != object->end() && report->is_object()) {
      const auto count = [&](const char* tier) { return static_cast<double>(count_of(*report, tier)); };
      return {count("device"), count("host"), count("disk")};
    }
  return {};
}

}  // namespace

double now_seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

struct LoadClient::Call {
  int socket = -1;
  std::string request;  // what is left to send
  std::string refused;  // why there is no connection
  HttpAnswer answer;
  CallResult result;
  double deadline = 0;
  double heard = 0;                                              // when the first event with a choice came
  bool finished = false, complete = false, may_be_mute = false;  // complete: [DONE] was seen
  Done done;
  Watch watch;
  ~Call() {
    if (socket >= 0) close(socket);
  }
};

LoadClient::LoadClient(ServerAddress server, ChatSettings settings, const std::atomic<bool>& stop)
    : server_(std::move(server)), settings_(std::move(settings)), stop_(stop) {}
LoadClient::~LoadClient() = default;

void LoadClient::start(const std::vector<ChatMessage>& messages, std::uint32_t max_tokens, Done done, Watch watch) {
  json body{{"model", settings_.model}, {"max_tokens", max_tokens}, {"temperature", 0}, {"stream", true}};
  body["stream_options"] = {{"include_usage", true}};
  if (settings_.ignore_eos) body["ignore_eos"] = true;
  for (const ChatMessage& message : messages) body["messages"].push_back({{"role", message.role}, {"content", message.content}});
  open("/v1/chat/completions", dumped(body), 1, std::move(done)).watch = std::move(watch);
}

void LoadClient::start(const CompletionCall& asked, Done done) {
  json body{{"model", settings_.model}, {"max_tokens", asked.max_tokens}, {"temperature", asked.temperature}, {"stream", true}};
  body["stream_options"] = {{"include_usage", true}};
  if (settings_.ignore_eos) body["ignore_eos"] = true;
  if (asked.choices > 1) body["n"] = asked.choices;
  if (asked.temperature > 0) body["seed"] = asked.seed;
  if (asked.logprobs > 0) body["logprobs"] = asked.logprobs;
  body["prompt"] = asked.prompt_ids.empty() ? json(asked.prompt) : json(asked.prompt_ids);
  open("/v1/completions", dumped(body), asked.choices, std::move(done)).may_be_mute = true;
}

LoadClient::Call& LoadClient::open(const std::string& path, const std::string& body, std::size_t choices, Done done) {
  auto call = std::make_unique<Call>();
  call->request = http_request(server_, "POST", path, settings_.api_key, body);
  call->done = std::move(done);
  call->result.texts.resize(choices);
  call->result.start = now_seconds();
  call->deadline = call->result.start + settings_.timeout_seconds;
  Call& opened = *call;
  calls_.push_back(std::move(call));
  auto connected = connect_to(server_);
  if (!connected) {  // run() tells it: `done` may start the next call, and that one is refused, too
    opened.refused = connected.error().client_text;
    return opened;
  }
  opened.socket = *connected;
  const ssize_t sent = send(opened.socket, opened.request.data(), opened.request.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent > 0) opened.request.erase(0, static_cast<std::size_t>(sent));
  return opened;
}

void LoadClient::after(double seconds, std::function<void()> then) { timers_.push_back({now_seconds() + seconds, std::move(then)}); }

CallResult LoadClient::call(const std::vector<ChatMessage>& messages, std::uint32_t max_tokens) {
  CallResult out;
  start(messages, max_tokens, [&](CallResult&& result) { out = std::move(result); });
  run();
  return out;
}

std::vector<CallResult> LoadClient::run_all(std::size_t count, std::uint32_t clients,
                                            const std::function<void(std::size_t, Done)>& start_one) {
  std::vector<CallResult> results;
  std::size_t next = 0;
  std::function<void()> ask = [&] {
    if (next == count || stop_.load(std::memory_order_relaxed)) return;
    start_one(next++, [&](CallResult&& result) {
      results.push_back(std::move(result));
      ask();
    });
  };
  for (std::uint32_t i = 0; i < clients; ++i) ask();
  run();
  return results;
}

void LoadClient::run() {
  std::vector<pollfd> sockets;
  for (;;) {
    fire_timers();
    for (std::size_t i = 0; i < calls_.size(); ++i) {  // callbacks may add calls
      Call& call = *calls_[i];
      if (call.finished) continue;
      if (!call.refused.empty()) {
        finish(call, std::move(call.refused));
        continue;
      }
      if (stop_.load(std::memory_order_relaxed)) finish(call, "interrupted");
      if (!call.finished && now_seconds() > call.deadline) finish(call, "no end of the answer within the time limit");
    }
    if (stop_.load(std::memory_order_relaxed)) timers_.clear();
    std::erase_if(calls_, [](const auto& call) { return call->finished; });
    if (calls_.empty() && timers_.empty()) return;

    sockets.clear();
    for (const auto& call : calls_)
      sockets.push_back({call->socket, static_cast<short>(call->request.empty() ? POLLIN : POLLIN | POLLOUT), 0});
    int wait_ms = kPollMs;
    for (const Timer& timer : timers_) wait_ms = std::clamp(static_cast<int>((timer.due - now_seconds()) * 1e3) + 1, 0, wait_ms);
    if (poll(sockets.data(), sockets.size(), wait_ms) <= 0) continue;
    const std::size_t polled = sockets.size();
    for (std::size_t i = 0; i < polled; ++i) {
      Call& call = *calls_[i];
      if (call.finished || sockets[i].revents == 0) continue;
      if ((sockets[i].revents & POLLOUT) != 0) {
        const ssize_t sent = send(call.socket, call.request.data(), call.request.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent > 0) call.request.erase(0, static_cast<std::size_t>(sent));
      }
      if ((sockets[i].revents & (POLLIN | POLLHUP | POLLERR)) != 0) take_bytes(call);
    }
  }
}

void LoadClient::fire_timers() {
  for (std::size_t i = 0; i < timers_.size();) {
    if (timers_[i].due > now_seconds()) {
      ++i;
      continue;
    }
    const auto then = std::move(timers_[i].then);
    timers_.erase(timers_.begin() + static_cast<std::ptrdiff_t>(i));
    then();
  }
}

void LoadClient::take_bytes(Call& call) {
  char buffer[16384];
  const ssize_t got = recv(call.socket, buffer, sizeof buffer, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
  if (got < 0) return finish(call, std::string("the connection broke: ") + std::strerror(errno));
  const Status status = got == 0 ? call.answer.end_of_input() : call.answer.take({buffer, static_cast<std::size_t>(got)});
  if (!status && !call.complete) return finish(call, Status(status).error().client_text);
  if (!call.answer.has_head()) return;
  call.result.status = call.answer.status();
  if (call.answer.status() != 200) {
    if (!call.answer.ended()) return;
    return finish(call, "HTTP " + std::to_string(call.answer.status()) + ": " + call.answer.take_body().substr(0, kLongestError));
  }
  while (!call.finished) {
    const auto line = call.answer.next_line();
    if (!line) break;
    std::string_view text = *line;
    if (!text.starts_with("data:")) continue;  // blank lines, comments, other fields
    text.remove_prefix(5);
    while (text.starts_with(' ')) text.remove_prefix(1);
    if (text == "[DONE]")
      call.complete = true;
    else
      take_event(call, text);
  }
  if (call.finished || (!call.complete && !call.answer.ended())) return;
  if (call.result.stamps.empty() && call.may_be_mute && call.heard > 0) call.result.stamps.push_back(call.heard);
  finish(call, call.result.stamps.empty() ? "the answer ended without text" : "");
}

void LoadClient::take_event(Call& call, std::string_view text) {
  const json event = json::parse(text, nullptr, false);
  if (!event.is_object()) return finish(call, "the server sent an event that is not JSON");
  if (const auto error = event.find("error"); error != event.end()) return finish(call, error->dump().substr(0, kLongestError));
  CallResult& result = call.result;
  if (const auto usage = event.find("usage"); usage != event.end() && usage->is_object()) {
    result.prompt_tokens = count_of(*usage, "prompt_tokens");
    result.output_tokens = count_of(*usage, "completion_tokens");
    const auto found = usage->find("prompt_tokens_details");
    const json details = found != usage->end() && found->is_object() ? *found : json::object();
    result.cached_tokens = count_of(details, "cached_tokens");
    result.tiers = tiers_of(*usage, details);
  }
  const auto choices = event.find("choices");
  if (choices == event.end() || !choices->is_array()) return;
  for (const json& choice : *choices) {
    if (call.heard == 0) call.heard = now_seconds();
    const std::string piece = piece_of(choice);
    if (piece.empty()) continue;
    result.stamps.push_back(now_seconds());
    const std::size_t index = count_of(choice, "index");
    result.texts[index < result.texts.size() ? index : 0] += piece;
    if (call.watch) call.watch(result);
  }
}

void LoadClient::finish(Call& call, std::string error) {
  call.finished = true;
  call.result.end = now_seconds();
  call.result.error = std::move(error);
  if (call.result.output_tokens == 0) call.result.output_tokens = call.result.stamps.size();
  if (call.socket >= 0) close(std::exchange(call.socket, -1));
  const Done done = std::move(call.done);
  done(std::move(call.result));
}

}  // namespace troupe::cluster::bench
