// `troupe bench MODEL`: prefill and decode speed of one shard, and what the scheduler adds, as a table or JSON. No actors, no
// network: what remains of a served request's time is delivery. Runs on the calling thread and the compute team.
#pragma once
#include "runtime/exec/shard_engine.h"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::cluster {

struct BenchOptions {
  exec::ShardSpec shard;               // model, formats, threads, ISA
  std::uint32_t prefill_tokens = 512;  // rows of the one prefill step
  std::uint32_t decode_steps = 64;     // timed steps a batch size
  std::uint32_t context_tokens = 128;  // held by every sequence when decoding starts
  std::vector<std::uint32_t> batches = {1, 16, 32};
  std::uint32_t repetitions = 5;  // the best and the median are reported
  bool json = false;
};

/// Prints to stdout; errors to stderr. Returns the exit code.
int run_bench(const BenchOptions& options);

}  // namespace troupe::cluster
