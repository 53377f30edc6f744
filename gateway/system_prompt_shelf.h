// SystemPromptShelf: keeps the prefixes of named system prompts in the cache. One by one, when the model can be used: prefilled (or loaded
// from a lower tier) as a stored response that is no client's, and pinned; looked at again now and then, since a group, a tier or the
// session store that was restarted has nothing of it. Owned by the Service; loop thread; with no prompt it does nothing. Invariants: at
// most kMostSystemPrompts, one a name; one of them is in work at a time; texts are kept until they are ids, and never logged.
#pragma once
#include "gateway/live_requests.h"
#include "gateway/prefix_call.h"
#include "gateway/store_calls.h"
#include "gateway/system_prompt.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe::gateway {

class SystemPromptShelf final : public EngineSink, public StoreSink {
 public:
  enum class State {
    kWaiting,  // for its turn
    kWarm,     // all its whole blocks are in the cache, pinned
    kRefused,  // the template, the context or the limit of pins does not take it
  };
  struct Where {
    std::uint32_t device = 0, host = 0, disk = 0;  // tokens in whole blocks, as of the last look
  };
  struct Entry {
    std::string name;
    std::string text;             // until it is tokens
    std::vector<TokenId> tokens;  // empty: not known yet
    std::string id;               // of its response; another one for each text
    State state = State::kWaiting;
    Where where = {};
    std::optional<Error> error = {};  // of the last turn
    std::uint64_t due = 0;            // loop time of its next turn
  };

  SystemPromptShelf(Service& service, SystemPrompts prompts);
  const std::vector<Entry>& entries() const { return entries_; }
  /// Whether one of that name can be put: it is there, or there is room.
  bool has_room(const std::string& name) const;
  /// Adds it or takes the place of an earlier one. False: no room.
  bool put(const std::string& name, std::vector<TokenId> tokens);
  /// What was pinned for it may go. False: not there.
  bool remove(const std::string& name);
  /// The model can be used, again perhaps: all are looked at.
  void look_at_all();
  /// Now and then.
  void tick();
  /// Ends what runs, silently: the last thing before the engine goes.
  void clear();

  // EngineSink, StoreSink.
  void admitted(messages::RequestAdmitted::Reader) override {}
  void delta(messages::TokenDelta::Reader) override {}
  void finished(messages::RequestFinished::Reader message) override;
  void answered(const StoreAnswer& answer) override;

 private:
  /// What a turn has done so far.
  struct Turn {
    std::string id;  // of the entry
    std::uint64_t began = 0;
    std::uint64_t asked = 0;  // loop time of the question that waits; 0: none does
    std::uint64_t query = 0;
    bool computed = false;
  };
  Entry* find(const std::string& name);
  Entry* in_work();
  std::string new_id(const std::string& name);
  void start_next();
  void pin();
  void compute(bool store);
  void on_pinned(Entry& entry, messages::ResponsePinned::Reader pinned);
  void end_turn(Entry& entry, State state, std::optional<Error> error = std::nullopt);
  void drop_turn();

  Service& service_;
  std::vector<Entry> entries_;  // in the order they came
  std::uint64_t last_id_ = 0;
  std::optional<Turn> turn_;
  std::unique_ptr<PrefixCall> prefix_;  // of the turn, as is the call
  std::optional<EngineCall> call_;
};

}  // namespace troupe::gateway
