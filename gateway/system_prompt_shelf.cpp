// See system_prompt_shelf.h.
#include "gateway/system_prompt_shelf.h"

#include "gateway/error_body.h"
#include "gateway/service.h"
#include "messages/error_reasons.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace troupe::gateway {
namespace {

constexpr std::uint64_t kLookEveryMs = 10'000;
constexpr std::uint64_t kPatienceMs = 10'000;
constexpr std::uint32_t kPinSeconds = 31'536'000;  // and again at each look

/// No key has this hash, so no client sees these responses, or can end them.
const Hash128& owner() {
  static const Hash128 hash = base::hash_text("troupe system prompts");
  return hash;
}

/// It will be the same the next time.
bool is_final(const Error& error) {
  return error.error_class == ErrorClass::kInvalidRequest || error.error_class == ErrorClass::kContextTooLong;
}

Error gone_again() {
  return make_error(ErrorClass::kOverloaded, ErrorReason::kNotEnoughBlocks, "the cache has no room for the whole of it now");
}

}  // namespace

SystemPromptShelf::SystemPromptShelf(Service& service, SystemPrompts prompts) : service_(service) {
  for (auto& prompt : prompts) {
    auto id = new_id(prompt.name);
    entries_.push_back({.name = std::move(prompt.name), .text = std::move(prompt.text), .tokens = {}, .id = std::move(id)});
  }
}

std::string SystemPromptShelf::new_id(const std::string& name) { return "system_prompt_" + name + "_" + std::to_string(++last_id_); }

SystemPromptShelf::Entry* SystemPromptShelf::find(const std::string& name) {
  auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.name == name; });
  return found == entries_.end() ? nullptr : &*found;
}

SystemPromptShelf::Entry* SystemPromptShelf::in_work() {
  if (!turn_) return nullptr;
  auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.id == turn_->id; });
  return found == entries_.end() ? nullptr : &*found;
}

bool SystemPromptShelf::has_room(const std::string& name) const {
  const auto same = [&](const Entry& entry) { return entry.name == name; };
  return entries_.size() < kMostSystemPrompts || std::any_of(entries_.begin(), entries_.end(), same);
}

bool SystemPromptShelf::put(const std::string& name, std::vector<TokenId> tokens) {
  if (!has_room(name)) return false;
  if (auto* entry = find(name); entry != nullptr && entry->tokens == tokens) {
    entry->due = 0;
  } else {
    remove(name);
    entries_.push_back({.name = name, .text = {}, .tokens = std::move(tokens), .id = new_id(name)});
  }
  start_next();
  return true;
}

bool SystemPromptShelf::remove(const std::string& name) {
  auto* entry = find(name);
  if (entry == nullptr) return false;
  if (entry == in_work()) drop_turn();
  service_.live().engine()->drop_response(owner(), entry->id);
  std::erase_if(entries_, [&](const Entry& other) { return other.name == name; });
  start_next();
  return true;
}

void SystemPromptShelf::look_at_all() {
  for (auto& entry : entries_)
    if (!entry.error || !is_final(*entry.error)) entry.due = 0;
  start_next();
}

void SystemPromptShelf::tick() {
  if (turn_ && turn_->asked != 0 && service_.now() - turn_->asked > kPatienceMs)
    end_turn(*in_work(), State::kWaiting,
             make_error(ErrorClass::kUnavailable, ErrorReason::kActorDied, "the session store does not answer"));
  start_next();
}

void SystemPromptShelf::clear() {
  drop_turn();
  entries_.clear();
}

void SystemPromptShelf::start_next() {
  if (turn_ || service_.refusal()) return;
  const auto now = service_.now();
  const auto next = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.due <= now; });
  if (next == entries_.end()) return;
  turn_ = Turn{.id = next->id, .began = now};
  if (!next->tokens.empty()) return pin();
  prefix_ = std::make_unique<PrefixCall>(service_, next->text, [this](Result<std::vector<TokenId>> tokens) {
    auto& entry = *in_work();
    if (!tokens) return end_turn(entry, is_final(tokens.error()) ? State::kRefused : State::kWaiting, tokens.error());
    entry.tokens = std::move(*tokens);
    entry.text = {};
    pin();
  });
  if (auto error = prefix_->begin()) end_turn(*next, State::kWaiting, *error);
}

/// Pins what the session store knows of it, and learns where that lies.
void SystemPromptShelf::pin() {
  turn_->query = service_.store_calls().add(*this);
  turn_->asked = service_.now();
  service_.store_calls().ask(Message<messages::PinResponse>::build([&](messages::PinResponse::Builder pin) {
    pin.setQuery(turn_->query);
    pin.initOwner().setHigh(owner().high);
    pin.getOwner().setLow(owner().low);
    pin.setId(turn_->id);
    pin.setTtlSeconds(kPinSeconds);
  }));
}

void SystemPromptShelf::answered(const StoreAnswer& answer) {
  auto* entry = in_work();
  if (entry == nullptr) return;
  service_.store_calls().remove(std::exchange(turn_->query, 0));
  turn_->asked = 0;
  if (const auto* pinned = std::get_if<Message<messages::ResponsePinned>>(&answer)) return on_pinned(*entry, **pinned);
  const auto* missing = std::get_if<Message<messages::ResponseMissing>>(&answer);
  auto error = missing != nullptr ? from_wire((*missing)->getError()) : internal_error();
  if (error.error_class == ErrorClass::kNotFound && !turn_->computed) return compute(true);
  end_turn(*entry, error.error_class == ErrorClass::kOverloaded ? State::kRefused : State::kWaiting, std::move(error));
}

void SystemPromptShelf::on_pinned(Entry& entry, messages::ResponsePinned::Reader pinned) {
  const auto usage = pinned.getUsage();
  entry.where = {usage.getDevice(), usage.getHost(), usage.getDisk()};
  const std::size_t whole = entry.tokens.size() / kBlockTokens * kBlockTokens;
  if (usage.getDevice() + usage.getHost() + usage.getDisk() >= whole) return end_turn(entry, State::kWarm);
  if (turn_->computed) return end_turn(entry, State::kWaiting, gone_again());
  compute(false);  // pinned as it comes
}

void SystemPromptShelf::compute(bool store) {
  auto& entry = *in_work();
  ModelRequest request;
  request.endpoint = messages::Endpoint::RESPONSES;
  request.prompt_tokens = entry.tokens;
  request.max_tokens = 0;
  request.priority = std::numeric_limits<std::int32_t>::min();  // clients go first
  if (auto error = service_.prepare(request, Caller{owner()}, 0)) return end_turn(entry, State::kWaiting, std::move(error));
  request.retention = messages::Retention::MEMORY;  // the next process is told of them anew
  if (store) request.response_id = entry.id;
  turn_->computed = true;
  call_.emplace(service_.live(), request, *this);
}

void SystemPromptShelf::finished(messages::RequestFinished::Reader message) {
  call_->ended();
  auto outcome = message.getOutcome();
  if (!outcome.isError()) return pin();
  auto error = from_wire(outcome.getError());
  end_turn(*in_work(), is_final(error) ? State::kRefused : State::kWaiting, std::move(error));
}

void SystemPromptShelf::end_turn(Entry& entry, State state, std::optional<Error> error) {
  const auto name = "name=" + entry.name + " tokens=" + std::to_string(entry.tokens.size());
  if (state == State::kWarm && (entry.state != State::kWarm || turn_->computed))
    base::log(base::LogLevel::kInfo, "system_prompt_warm", name + " ms=" + std::to_string(service_.now() - turn_->began));
  if (error && (!entry.error || entry.error->client_text != error->client_text))  // once for each reason, not at each look
    base::log(base::LogLevel::kWarning, "system_prompt_not_kept", name + " reason=" + base::log_value(error->client_text));
  const bool again = !error || !is_final(*error);
  entry.state = state;
  entry.error = std::move(error);
  entry.due = again ? service_.now() + kLookEveryMs : std::numeric_limits<std::uint64_t>::max();
  drop_turn();
  start_next();
}

void SystemPromptShelf::drop_turn() {
  if (turn_ && turn_->query != 0) service_.store_calls().remove(turn_->query);
  turn_.reset();
  call_.reset();
  prefix_.reset();
}

}  // namespace troupe::gateway
