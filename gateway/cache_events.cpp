// See cache_events.h.
#include "gateway/cache_events.h"

#include "gateway/service.h"
#include "runtime/base/hash.h"

#include <charconv>
#include <utility>

namespace troupe::gateway {
namespace {

constexpr std::uint64_t kAskAgainMs = 2'000;  // the cache's actor may have been replaced
constexpr int kHexDigits = 16;

std::string_view tier_name(messages::Tier tier) {
  switch (tier) {
    case messages::Tier::DEVICE: return "device";
    case messages::Tier::HOST: return "host";
    case messages::Tier::DISK: return "disk";
  }
  return "";
}

void append_key(std::string& out, std::string_view name, std::uint64_t high, std::uint64_t low) {
  out.append(",\"").append(name).append("\":");
  if (high == 0 && low == 0)
    out += "null";
  else
    out.append("\"").append(base::hex({high, low})).append("\"");
}

std::string event_head(std::uint64_t number, std::string_view type) {
  return "{\"number\":" + std::to_string(number) + ",\"type\":\"" + std::string(type) + "\"";
}

std::string event_json(messages::BlockEvents::Reader page, unsigned index, std::uint64_t number) {
  const auto change = page.getChanges()[index];
  std::string out = event_head(number, change.getCleared() ? "cleared" : change.getStored() ? "stored" : "removed");
  out.append(",\"tier\":\"").append(tier_name(change.getTier())).append("\"");
  if (!change.getCleared()) append_key(out, "key", change.getKeyHigh(), change.getKeyLow());
  if (change.getStored()) {
    append_key(out, "parent", change.getParentHigh(), change.getParentLow());
    if (page.hasTokens()) {
      out += ",\"tokens\":";
      char before = '[';
      for (const TokenId token : page.getTokens()[index]) out.append(1, std::exchange(before, ',')).append(std::to_string(token));
      out += before == '[' ? "null" : "]";
    }
  }
  return out + "}";
}

}  // namespace

std::string event_id(const EventPosition& position) {
  return base::hex({position.incarnation, 0}).substr(0, kHexDigits) + "-" + std::to_string(position.number);
}

std::optional<EventPosition> event_position(std::string_view text) {
  EventPosition position;
  const char* end = text.data() + text.size();
  const auto [dash, error] = std::from_chars(text.data(), end, position.incarnation, 16);
  if (error != std::errc() || dash == end || *dash != '-') return std::nullopt;
  const auto [last, fault] = std::from_chars(dash + 1, end, position.number);
  if (fault != std::errc() || last != end) return std::nullopt;
  return position;
}

void CacheEventReaders::told(const Message<messages::BlockEvents>& events) {
  if (const auto found = askers_.find(events->getQuery()); found != askers_.end()) found->second->told(events);
}

std::uint64_t CacheEventReaders::ask(CacheEventStream& stream, std::uint64_t reader, std::uint64_t before, const EventPosition& after,
                                     bool tokens) {
  askers_.erase(before);
  askers_[++last_] = &stream;
  live_.engine()->read_block_events(Message<messages::ReadBlockEvents>::build([&](messages::ReadBlockEvents::Builder read) {
    read.setReader(reader);
    read.setQuery(last_);
    read.setIncarnation(after.incarnation);
    read.setAfter(after.number);
    read.setTokens(tokens);
  }));
  return last_;
}

CacheEventStream::CacheEventStream(Service& service, Connection& connection, const EventPosition& after, bool tokens)
    : service_(service),
      connection_(connection),
      tokens_(tokens),
      at_(after),
      reader_(service.cache_events().open()),
      ping_(service.now(), service.limits().sse_ping_ms) {}

void CacheEventStream::begin() {
  connection_.begin_stream("text/event-stream");
  connection_.stream(": cache events\n\n");  // so that the client sees that it is there
  ask();
}

void CacheEventStream::ask() {
  waiting_ = true;
  asked_at_ = service_.now();
  query_ = service_.cache_events().ask(*this, reader_, query_, at_, tokens_);
}

void CacheEventStream::told(const Message<messages::BlockEvents>& events) {
  waiting_ = events->getMore();
  asked_at_ = service_.now();
  pages_.push_back(events);
  pump();
}

void CacheEventStream::pump() {
  while (!closed_ && !pages_.empty() && connection_.has_room()) write_one();
  if (!closed_ && pages_.empty() && !waiting_) ask();
}

void CacheEventStream::write_one() {
  const auto page = *pages_.front();
  const unsigned events = page.getChanges().size();
  EventPosition at{page.getIncarnation(), page.getFirst() + (page.getSnapshot() ? 0 : next_)};
  std::string json;
  if (page.getCleared() && !std::exchange(cleared_, true))
    json = event_head(at.number, "cleared") + ",\"tier\":null}";
  else if (next_ < events)
    json = event_json(page, next_++, at.number);
  const bool page_ends = next_ == events;
  // Only the end of a snapshot is a place to go on from: who is cut off inside does not have all of it.
  const bool with_id = !page.getSnapshot() || (page_ends && !page.getMore());
  if (!json.empty()) write(json, with_id ? event_id(at) : "");
  if (with_id) at_ = at;
  if (!page_ends) return;
  pages_.pop_front();
  next_ = 0;
  cleared_ = false;
}

void CacheEventStream::write(std::string_view json, std::string_view id) {
  std::string text;
  if (!id.empty()) text.append("id: ").append(id).append("\n");
  connection_.stream(text.append("data: ").append(json).append("\n\n"));
  ping_.event_sent(service_.now());
}

void CacheEventStream::tick(std::uint64_t now) {
  if (closed_) return;
  if (service_.draining()) return end();  // it would never end by itself
  ping_.tick(connection_, now);
  if (waiting_ && now - asked_at_ >= kAskAgainMs) ask();
}

void CacheEventStream::end() {
  if (closed_) return;
  close();
  connection_.end_stream();
}

void CacheEventStream::close() {
  if (!std::exchange(closed_, true)) service_.cache_events().close(query_);
}

}  // namespace troupe::gateway
