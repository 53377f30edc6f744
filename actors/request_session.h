// RequestSession, the class behind request_session_actor.h, in three parts: prompt (request_session_prompt.cpp), replica and admission
// (request_session_admission.cpp), tokens and end (request_session_stream.cpp). Not included by others.
#pragma once
#include "actors/actor_base.h"
#include "actors/request_session_actor.h"
#include "actors/timers.h"
#include "actors/wire/request.h"
#include "actors/wire/session_store.h"
#include "messages/admission.capnp.h"
#include "runtime/session/generation.h"
#include "runtime/session/prompt_builder.h"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace troupe::actors {

class RequestSession final : public ActorBase {
 public:
  RequestSession(caf::actor_config& config, std::shared_ptr<const RequestSessionDependencies> dependencies, caf::actor gateway);
  caf::behavior make_behavior() override;
  void on_exit() override { gateway_ = scheduler_ = {}; }

 private:
  /// Until a router or scheduler that is not there yet is asked again.
  static constexpr std::chrono::milliseconds kAskAgain{100};
  /// For router and session store; after that they are asked once more, or done without.
  static constexpr std::chrono::milliseconds kReplyTime{2000};
  /// For a response to be on the disk.
  static constexpr std::chrono::milliseconds kStoreTime{10'000};
  /// What a request that does not stream gathers before it is told; the gateway bounds the whole.
  static constexpr std::size_t kJoinedBytes = 64 * 1024;
  enum class Phase { kNew, kLookingUp, kTokenizing, kChoosing, kAdmitting, kGenerating, kFinishing };

  // --- prompt ---
  void on_submit(messages::SubmitRequest::Reader submit);
  void look_up();
  void on_found(messages::ResponseFound::Reader page);
  void build_prompt();
  void on_slice();
  void tell_tokens(const std::vector<TokenId>& tokens);

  // --- replica and admission ---
  void choose();
  /// Whether a replica that is not there is still waited for.
  bool patient();
  void ask_again();
  void on_chosen(messages::ReplicaChosen::Reader chosen);
  std::int64_t left(TimePoint until);
  void on_refused(const Error& error);
  void on_admitted(messages::SequenceAdmitted::Reader admitted);
  void on_admission_refused(messages::AdmissionRefused::Reader refused);
  void leave_scheduler();
  void abort(std::vector<std::uint16_t> choices);

  // --- tokens ---
  void on_tokens(const schedule::TokensGenerated& message);
  void measure(const schedule::TokensGenerated& message);
  /// One delta with all that is ready, if there is credit. Without streaming it waits until it is worth a message, and for the end.
  void deliver();
  void on_credit(std::uint32_t deltas);

  // --- end ---
  /// All choices have ended: stores the response, then tells the one terminal event.
  void finish();
  void store();
  void on_stored(messages::ResponseStored::Reader stored);
  void on_overdue(std::uint32_t number);
  /// The terminal event needs no credit, but comes behind the last delta, which does.
  void end_if_ready();
  wire::Usage usage() const;
  void fail(const Error& error);
  void leave();
  void on_cancel(bool silent);
  void on_down(const caf::actor_addr& dead);

  std::shared_ptr<const RequestSessionDependencies> parts_;
  caf::actor gateway_, scheduler_;
  Phase phase_ = Phase::kNew;
  session::Request request_;
  wire::PageJoiner<session::FoundResponse> parent_pages_;
  std::optional<session::ParentResponse> parent_;
  std::optional<session::PromptBuilder> builder_;
  std::optional<std::string> rendered_;  // endpoint tokenize, where the text is wanted
  std::optional<session::Generation> generation_;
  std::uint32_t question_ = 0;  // number of the question last asked; answers and timers of older ones are dropped
  std::uint32_t credit_ = 0, deltas_ = 0;
  std::uint16_t attempt_ = 0;
  std::uint32_t replica_ = 0;
  Hash128 key_domain_;
  std::optional<Hash128> numerics_;
  std::optional<Error> refusal_, store_error_;
  bool numerics_changed_ = false, refused_once_ = false, asked_twice_ = false, admitted_ = false, storing_ = false;
  TimePoint received_, waiting_since_, last_token_at_;
  std::optional<TimePoint> deadline_, first_token_at_;
};

}  // namespace troupe::actors
