// Admission and Sequence: what the scheduler keeps of a request and of each of its choices. Plain data; scheduler_state.h has the rules.
// Owned by the Scheduler, on its thread. Invariants: published <= table.size(); computed <= planned <= table.size() * 32;
// table[published...] are private blocks; a sequence waits with all its tokens, so it can start again from nothing.
#pragma once
#include "runtime/plan/forward_plan.h"
#include "runtime/schedule/admission.h"
#include "runtime/schedule/scheduler.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

namespace troupe::schedule {

using SequenceNumber = std::uint64_t;  // of this scheduler; increasing with arrival, never reused

/// A lock at the device tier, shared by the sequences that read its blocks; released with the last of them.
struct Hold {
  LockId lock;
};

/// One AdmitSequence: what its choices have in common.
struct Admission {
  RequestId request;
  std::uint16_t attempt = 0;
  std::uint16_t choices = 1;
  std::uint32_t prompt_tokens = 0;
  std::uint32_t generated_from = 0;  // position of the first token that was generated, in an earlier attempt perhaps
  std::uint32_t max_tokens = 0;
  Hash128 key_domain;
  Hash128 owner;
  plan::SamplingParameters sampling;
  std::vector<TokenId> stop_tokens;    // EOS included unless ignored
  std::uint32_t next_score = kNone32;  // next prompt position to be scored; kNone32 = none wanted
  std::int32_t priority = 0;
  TimePoint admitted_at;
  std::optional<TimePoint> deadline;
  std::optional<kv::CacheReport> report;  // of the first match
  bool report_sent = false;

  bool stops_at(TokenId token) const { return std::find(stop_tokens.begin(), stop_tokens.end(), token) != stop_tokens.end(); }
  bool scores_wanted() const { return next_score < prompt_tokens; }
};

enum class SequenceState : std::uint8_t {
  kAttached,  // a further choice; forks from `siblings` owner when the prompt is done
  kWaiting,   // in the queue
  kMatching,  // Match sent
  kMatched,   // prefix locked, waits for blocks
  kLoading,   // blocks of its prefix are on their way to the device
  kRunning,   // may have rows in plans
  kLeaving,   // no more rows; its blocks wait for results
};

/// A copy of the first `tokens` positions of another block, due in the plan with the first row.
struct PendingCopy {
  BlockId source = 0;
  std::uint16_t tokens = 0;
  LockId tail_lock;                    // of a fork inside a block
  SequenceNumber source_sequence = 0;  // of a sibling's copy
};

/// The part of a matched prefix that lies below the device: the host's run, then the disk's.
struct PrefixBelow {
  std::vector<BlockId> host, disk;
  Incarnation host_tier = 0, disk_tier = 0;
  std::uint32_t next = 0;        // blocks of both that were loaded
  std::vector<BlockKey> failed;  // blocks that could not be
  TimePoint started;

  std::uint32_t left() const { return static_cast<std::uint32_t>(host.size() + disk.size()) - next; }
  Tier next_tier() const { return next < host.size() ? Tier::kHost : Tier::kDisk; }
  std::uint32_t left_in_tier() const { return next < host.size() ? static_cast<std::uint32_t>(host.size()) - next : left(); }
  /// Place of the block `ahead` of the next one, in the same tier.
  BlockId source(std::uint32_t ahead) const {
    const std::size_t at = next + ahead;
    return at < host.size() ? host[at] : disk[at - host.size()];
  }
};

struct Sequence {
  SequenceNumber number = 0;
  std::shared_ptr<Admission> admission;
  std::uint16_t choice = 0;
  SequenceState state = SequenceState::kWaiting;
  std::vector<TokenId> tokens;                  // prompt, generated, and a stop token at the end
  std::vector<BlockKey> keys;                   // of full blocks, as far as known
  std::uint32_t generated = 0;                  // tokens told to the session in this attempt
  std::vector<SequenceNumber> attached;         // further choices that fork from this one
  bool ended = false;                           // leaving for good (else: preempted)
  bool scores = false;                          // this choice scores the prompt
  bool cold_start = false;                      // match nothing: the pool is too small to hold locks and copies
  std::uint32_t losses = 0;                     // groups lost under it since its last token
  kv::MissReason miss = kv::MissReason::kNone;  // of the last match

  // While on the shard.
  std::shared_ptr<Hold> hold;      // of the matched prefix, and of prompt blocks published
  std::shared_ptr<Hold> own_hold;  // of generated blocks where the prompt is shared between choices
  std::optional<SequenceSlot> slot;
  std::vector<BlockId> table;
  std::uint32_t published = 0;   // blocks [0, published) belong to the tree or to a hold
  std::deque<BlockId> reserved;  // taken from the lease, not yet in the table
  PrefixBelow below;
  std::uint32_t loaded_host = 0, loaded_disk = 0;  // blocks
  std::uint32_t load_us = 0;
  std::optional<PendingCopy> copy;
  std::uint32_t prefill_begin = 0;
  std::uint32_t prefill_end = 0;  // positions from prefill_begin on, below it, are prefilled from known tokens
  std::uint32_t planned = 0;      // positions whose K and V are planned
  std::uint32_t computed = 0;     // positions whose K and V are there
  std::uint32_t draws_in_flight = 0;
  std::uint32_t next_score = 0;     // next position to be scored by a plan
  std::uint32_t pending_forks = 0;  // siblings that still copy from here
  StepNumber last_step;             // last plan that names its blocks
  StepNumber last_row_step;         // last plan with a row or draw of it

  // Tokens on their way to the session.
  TokensGenerated outbox;
  bool first_sent = false;
  TimePoint due;

  bool prefilling() const { return planned < prefill_end; }
};

inline std::uint32_t blocks_for(std::uint64_t tokens) { return static_cast<std::uint32_t>((tokens + kBlockTokens - 1) / kBlockTokens); }

}  // namespace troupe::schedule
