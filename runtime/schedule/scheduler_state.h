// Scheduler::State: the state machine behind scheduler.h, in one class and eight files, each a stage of a sequence's life:
//   admission.cpp   admit, abort, deadlines: into the queue and out of it
//   start.cpp       queue -> Match -> lock -> blocks -> running
//   loading.cpp     what lies in a tier below is loaded first, where that is cheaper than computing it
//   lease.cpp       the standing lease, preemption when it runs dry
//   plan_step.cpp   running sequences -> ForwardPlan
//   stages.cpp      how much goes into one, and how many are in flight, where a replica has stages
//   commit_step.cpp ForwardResult -> tokens, published blocks
//   retire.cpp      leaving sequences give back what they held; loss and return of the group
// Thread: the Scheduler's owner. Invariant: a block goes back only when the last plan that names it has its result.
#pragma once
#include "runtime/schedule/cost_model.h"
#include "runtime/schedule/delivery.h"
#include "runtime/schedule/lease_pool.h"
#include "runtime/schedule/load_cost.h"
#include "runtime/schedule/overlap_policy.h"
#include "runtime/schedule/plan_builder.h"
#include "runtime/schedule/policy.h"
#include "runtime/schedule/published_keys.h"
#include "runtime/schedule/scheduler.h"
#include "runtime/schedule/sequence.h"

#include <deque>
#include <map>
#include <set>
#include <unordered_map>
#include <vector>

namespace troupe::schedule {

class Scheduler::State {
 public:
  explicit State(SchedulerOptions options);

  // admission.cpp
  void admit(AdmitSequence request, TimePoint now);
  void abort(const AbortSequence& request, TimePoint now);
  void on_time(TimePoint now);
  // start.cpp
  void on_prefix_matched(const kv::PrefixMatched& match, TimePoint now);
  // loading.cpp
  void on_moves_finished(const plan::MovesFinished& moves, TimePoint now);
  // lease.cpp
  void on_blocks_leased(const kv::BlocksLeased& leased, TimePoint now);
  // commit_step.cpp
  void on_result(const plan::ForwardResult& result, TimePoint now);
  // retire.cpp
  void on_group_lost(GroupEpoch epoch, bool final, const Error& error, TimePoint now);
  void on_group_ready(const GroupReady& group, TimePoint now);
  // scheduler.cpp
  void drain(TimePoint now);
  bool idle() const { return sequences_.empty() && in_flight_.empty() && matches_.empty(); }
  SchedulerStats stats() const;
  SchedulerOutput take_output();

 private:
  // scheduler.cpp
  void advance(TimePoint now);  // after every event: start, plan, lease, tell the load
  void report_load(TimePoint now);
  Sequence* find(SequenceNumber number);
  std::uint32_t free_blocks() const;
  std::uint64_t waiting_tokens() const;

  // admission.cpp
  std::optional<Error> refusal(const AdmitSequence& request) const;
  std::optional<Error> does_not_fit(std::uint32_t tokens, bool generates) const;
  std::shared_ptr<Admission> make_admission(const AdmitSequence& request, TimePoint now) const;
  std::uint32_t expected_ms() const;
  std::uint32_t generation_limit(const Admission& admission) const;  // tokens of one choice
  std::uint32_t longest_sequence() const;                            // tokens: context, or what the block pool holds
  void end_sequence(Sequence& sequence);                             // from any state, for good, without a word to the session
  void detach(Sequence& sequence);
  void fail(Sequence& sequence, const Error& error, TimePoint now);
  void promote_attached(Sequence& sequence);
  void forget(SequenceNumber number);

  // start.cpp
  void start_sequences(TimePoint now);
  void begin_match(Sequence& sequence);
  void begin_running(Sequence& sequence);
  void start_matched(TimePoint now);
  bool start_is_stuck() const;
  void resolve_stuck_start(TimePoint now);
  void unmatch(Sequence& sequence);
  void unmatch_candidates();
  bool may_match_more() const;
  Sequence* next_waiting(TimePoint now);
  static std::uint32_t most_matched(const Sequence& sequence);
  std::uint32_t prefix_in_flight(const Sequence& sequence) const;
  bool waits_for_prefix(const Sequence& sequence) const;
  SequenceView view_of(const Sequence& sequence, TimePoint now) const;
  std::uint32_t blocks_wanted(const Sequence& sequence) const;  // from the lease, to start it
  std::uint32_t prefill_backlog() const;

  // loading.cpp
  struct LoadInFlight {
    SequenceNumber sequence = 0;
    Tier tier = Tier::kHost;
    std::uint32_t blocks = 0;
    std::uint32_t good = 0;  // before the first that failed on any rank
    std::uint32_t ranks_left = 0;
    TimePoint started;
  };
  void reset_load_costs(std::uint64_t block_bytes);
  LoadCost& cost_of(Tier tier) { return tier == Tier::kHost ? host_cost_ : disk_cost_; }
  const LoadCost& cost_of(Tier tier) const { return tier == Tier::kHost ? host_cost_ : disk_cost_; }
  std::uint32_t blocks_worth_loading(const Sequence& sequence, TimePoint now) const;
  void take_prefix_below(Sequence& sequence, const kv::PrefixMatched& match, TimePoint now);
  void end_locks_below(Sequence& sequence);
  void begin_loading(Sequence& sequence, TimePoint now);
  void order_load(Sequence& sequence, std::uint32_t blocks, TimePoint now);
  void take_loaded(Sequence& sequence, const LoadInFlight& load, TimePoint now);
  void end_loading(Sequence& sequence, TimePoint now);

  // lease.cpp
  void refill_lease();
  std::uint32_t lease_demand() const;
  bool blocks_exhausted() const;
  void release(std::vector<LockId> locks, std::vector<BlockRange> leased);
  void drop_hold(std::shared_ptr<Hold>& hold);
  LockId next_lock() { return LockId{++last_lock_}; }
  void reserve_decode_blocks(TimePoint now);
  Sequence* choose_victim(TimePoint now);

  // plan_step.cpp
  void plan_steps(TimePoint now);
  bool plan_one(TimePoint now);
  std::vector<Sequence*> decode_rows_due() const;
  bool wants_decode_row(const Sequence& sequence) const;
  void plan_decode(PlanBuilder& builder, const std::vector<Sequence*>& due, std::uint32_t most_rows);
  void plan_prefill(PlanBuilder& builder);
  std::uint32_t chunk_within(double limit_us, PlanInFlight& note, const Sequence& sequence, std::uint32_t most) const;
  void prepare_rows(PlanBuilder& builder, Sequence& sequence, std::uint32_t rows);
  void fork_attached(PlanBuilder& builder, Sequence& parent);
  SequenceSlot take_slot();

  // stages.cpp
  std::uint32_t most_in_flight() const;
  std::uint32_t streams() const;
  std::uint32_t most_decode_rows() const;
  std::uint32_t most_prefill_rows() const;
  double stage_us(const PlanInFlight& note, std::uint32_t compute_us) const;
  double stall_limit_us() const;

  // commit_step.cpp
  void commit_rows(const PlanInFlight& note);
  void commit_score(const PlannedSample& sample, const TopLogprobs& logprobs, bool failed, TimePoint now);
  void commit_draw(Sequence& sequence, TokenId token, const TopLogprobs& logprobs, bool failed, TimePoint now);
  void commit_prompt_end(Sequence& sequence, TimePoint now);
  void publish_full_blocks(Sequence& sequence);
  void publish_tail(Sequence& sequence);
  void extend_keys(Sequence& sequence, std::uint32_t blocks);
  LockId publish_lock(Sequence& sequence, std::uint32_t block);
  void finish(Sequence& sequence, Finish finish, TokenId stop_token, TimePoint now);

  // retire.cpp
  void leave(Sequence& sequence, bool ended);
  void retire_leaving();
  bool try_retire(Sequence& sequence);
  void settle_copy(Sequence& sequence);
  void forget_residency(Sequence& sequence);

  SchedulerOptions options_;
  std::unique_ptr<SchedulingPolicy> policy_;
  SchedulerOutput output_;

  std::map<SequenceNumber, std::unique_ptr<Sequence>> sequences_;
  std::unordered_multimap<RequestId, SequenceNumber> by_request_;
  std::vector<Sequence*> waiting_;
  std::vector<Sequence*> candidates_;  // matching or matched, in the order chosen
  std::vector<Sequence*> loading_;     // those that have ended, too, until their moves have
  std::vector<Sequence*> running_;     // in order of start
  std::vector<Sequence*> leaving_;
  std::unordered_map<LockId, SequenceNumber> matches_;  // asked, not answered
  SequenceNumber last_number_ = 0;

  // The group of shards.
  GroupEpoch epoch_;
  bool serving_ = false;
  bool draining_ = false;
  std::optional<Error> lost_for_good_;
  std::uint32_t total_blocks_ = 0;
  std::uint32_t context_tokens_ = 0;
  std::deque<PlanInFlight> in_flight_;
  StepNumber last_step_, last_result_;
  std::optional<TimePoint> busy_since_;  // the last result, if the shards had the next plan already
  std::set<std::uint32_t> free_slots_;
  std::uint32_t slots_made_ = 0;
  std::vector<SequenceSlot> to_drop_;  // told to the shards by the next plan
  bool prefill_starved_ = false;       // the last plan had prompt tokens to do and no row for them

  std::uint32_t stages_ = 1;
  OverlapPolicy overlap_;

  // Loads.
  std::uint32_t ranks_ = 1;
  std::unordered_map<MoveSetId, LoadInFlight> loads_;
  std::uint64_t last_move_set_ = 0;  // never reused, so that answers of an older epoch find nothing
  std::uint64_t block_bytes_ = 0;
  LoadCost host_cost_, disk_cost_;

  // Blocks.
  LeasePool lease_;
  std::uint64_t last_lock_ = 0, last_lease_ = 0;
  std::uint32_t lease_asked_ = 0;  // blocks of the request without a reply; 0 = none
  bool lease_short_ = false;       // the last reply gave less than asked, and nothing was released since
  std::uint64_t releases_made_ = 0, releases_sent_ = 0, releases_at_request_ = 0;
  bool admission_hold_ = false;  // blocks ran out: start nothing until something ends
  PublishedKeys published_keys_;

  CostModel cost_;
  Delivery delivery_;
  SchedulerStats counters_;
  ReplicaLoad last_load_;
  std::optional<TimePoint> last_load_at_, load_due_;
};

}  // namespace troupe::schedule
