#include "runtime/exec/rank_stores.h"

#include "messages/error_reasons.h"
#include "runtime/base/log.h"
#include "runtime/exec/disk_store.h"
#include "runtime/exec/host_store.h"

#include <algorithm>
#include <chrono>
#include <numeric>

namespace troupe::exec {
namespace {

Error refused(std::string why) { return make_error(ErrorClass::kInternal, ErrorReason::kUnclassified, "block moves: " + std::move(why)); }

StoreSpec store_spec(const kernels::KvCache& cache, const RankStoresSpec& spec, std::uint32_t blocks) {
  StoreSpec out;
  out.block_bytes = cache.block_bytes();
  out.blocks = blocks;
  out.domain = spec.domain;
  out.folder = spec.folder;
  out.spare_bytes = spec.spare_bytes;
  return out;
}

std::unique_ptr<TierStore> slowed(std::unique_ptr<TierStore> store, Tier tier, const SlowTier& slow) {
  if (!store || slow.bytes_per_second == 0 || slow.tier != tier) return store;
  return std::make_unique<SlowStore>(std::move(store), slow.bytes_per_second);
}

}  // namespace

Result<std::unique_ptr<RankStores>> RankStores::open(kernels::KvCache& cache, RankStoresSpec spec) {
  std::unique_ptr<TierStore> host, disk;
  if (spec.host_blocks > 0) {
    auto opened = HostStore::open(store_spec(cache, spec, spec.host_blocks));
    if (!opened) return opened.error();
    host = slowed(std::move(*opened), Tier::kHost, spec.slow);
  }
  if (spec.disk_blocks > 0) {
    auto opened = DiskStore::open(store_spec(cache, spec, spec.disk_blocks));
    if (opened)
      disk = slowed(std::move(*opened), Tier::kDisk, spec.slow);
    else
      base::log(base::LogLevel::kWarning, "no_disk_cache", "reason=" + base::log_value(opened.error().client_text));
  }
  if (!host && !disk) return std::unique_ptr<RankStores>();
  return std::unique_ptr<RankStores>(new RankStores(cache, std::move(spec), std::move(host), std::move(disk)));
}

RankStores::RankStores(kernels::KvCache& cache, RankStoresSpec spec, std::unique_ptr<TierStore> host, std::unique_ptr<TierStore> disk)
    : will_load_(std::move(spec.will_load)),
      device_(cache),
      host_(std::move(host)),
      disk_(std::move(disk)),
      mover_({&device_, host_.get(), disk_.get()}, spec.most_moves, spec.drive, std::move(spec.computing)) {}

TierStore* RankStores::store_of(Tier tier) {
  switch (tier) {
    case Tier::kDevice: return &device_;
    case Tier::kHost: return host_.get();
    case Tier::kDisk: return disk_.get();
  }
  return nullptr;  // a number from outside
}

std::uint32_t RankStores::blocks_of(Tier tier) {
  const TierStore* const store = store_of(tier);
  return store == nullptr ? 0 : store->blocks();
}

/// Whether the move may begin. If it may, the device vouches for its source.
Status RankStores::admit(const plan::MoveBlocks& set, std::size_t index) {
  const plan::BlockMove& move = set.moves[index];
  const BlockKey key = index < set.keys.size() ? set.keys[index] : BlockKey();
  const auto older = [this](Tier tier, Incarnation named) { return named != 0 && named < incarnations_[static_cast<std::size_t>(tier)]; };
  if (older(Tier::kHost, set.host_tier) || older(Tier::kDisk, set.disk_tier)) return refused("of a tier's actor that was replaced");
  if (store_of(move.from) == nullptr || store_of(move.to) == nullptr) return refused("this rank has no such tier");
  if (move.from == move.to) return refused("from a tier to itself");
  if (move.tokens != kBlockTokens) return refused("not a whole block");
  if (move.source >= blocks_of(move.from) || move.target >= blocks_of(move.to)) return refused("the tier has no such block");
  if (!key) return refused("no key");
  if (move.from == Tier::kDevice && !device_.publish(move.source, key)) return refused("the device has another block there");
  return ok_status();
}

void RankStores::start(const plan::MoveBlocks& set, std::function<void(plan::MovesFinished)> finished) {
  plan::MovesFinished report;
  report.epoch = set.epoch;
  report.move_set = set.move_set;
  MoveOrder order;
  std::vector<std::uint32_t> indices;  // in the set, of the order's moves
  for (std::uint32_t i = 0; i < set.moves.size(); ++i) {
    if (const Status admitted = admit(set, i); !admitted) {
      report.failed.push_back(i);
      if (!report.error) report.error = admitted.error();
      continue;
    }
    const plan::BlockMove& move = set.moves[i];
    if (move.to == Tier::kDevice && will_load_) will_load_(move.target);
    order.moves.push_back(move);
    order.keys.push_back(set.keys[i]);
    indices.push_back(i);
  }
  order.background = set.background;
  order.finished = [report, indices, finished](MovesDone done) mutable {
    for (const std::uint32_t index : done.failed) report.failed.push_back(indices[index]);
    std::sort(report.failed.begin(), report.failed.end());
    report.micros = done.micros;
    report.bytes = done.bytes;
    if (!report.error) report.error = std::move(done.error);
    finished(std::move(report));
  };
  if (order.moves.empty()) return order.finished({});
  if (mover_.submit(std::move(order)) != 0) return;
  report.failed.resize(set.moves.size());
  std::iota(report.failed.begin(), report.failed.end(), 0U);
  report.error = refused("too many are waiting");
  finished(std::move(report));
}

bool RankStores::inventory(Tier tier, std::function<void(std::vector<StoredBlock>)> done) {
  const TierStore* const store = store_of(tier);
  if (store == nullptr) return false;
  mover_.post([store, &oldest = oldest_[static_cast<std::size_t>(tier)], done = std::move(done)] {
    auto blocks = store->inventory();
    oldest = blocks.empty() ? StoredBlock() : blocks.front();
    done(std::move(blocks));
  });
  return true;
}

std::uint32_t RankStores::time_read(Tier tier) {
  TierStore* const store = store_of(tier);
  if (store == nullptr) return 0;
  const StoredBlock& oldest = oldest_[static_cast<std::size_t>(tier)];
  if (!oldest.key) return 0;
  std::vector<std::byte> bytes(store->block_bytes());
  BlockRead read{oldest.block, oldest.key, bytes.data(), false};
  const auto start = std::chrono::steady_clock::now();
  if (!store->get({&read, 1})) base::log(base::LogLevel::kDebug, "disk_probe_failed");
  const auto spent = std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - start).count();
  return read.done ? static_cast<std::uint32_t>(std::clamp<std::int64_t>(spent, 1, UINT32_MAX)) : 0;
}

void RankStores::set_incarnation(Tier tier, Incarnation incarnation) {
  if (store_of(tier) == nullptr) return;
  auto& newest = incarnations_[static_cast<std::size_t>(tier)];
  newest = std::max(newest.load(), incarnation);
}

void RankStores::end_epoch() {
  mover_.cancel_all();
  mover_.wait_until_idle();
  device_.clear();
}

Result<std::uint32_t> choose_store_blocks(const std::string& option, std::uint64_t bytes, std::uint64_t block_bytes, std::uint64_t limit) {
  constexpr std::uint64_t kFewest = 2, kMost = 1U << 30;  // one to read, one to write; ids are 32 bits, with room for marks
  const std::uint64_t blocks = bytes / block_bytes;
  const auto bad = [&option](std::string what) {
    return make_error(ErrorClass::kInvalidRequest, ErrorReason::kBadConfig, option + ": " + std::move(what), option);
  };
  if (bytes == 0) return 0U;
  if (bytes > limit)
    return bad(std::to_string(bytes >> 20) + " MiB is more than the memory that this machine has beside --kv-memory (" +
               std::to_string(limit >> 20) + " MiB)");
  if (blocks < kFewest)
    return bad("room for " + std::to_string(blocks) + " blocks of " + std::to_string(block_bytes) + " bytes; at least " +
               std::to_string(kFewest) + " are needed");
  return static_cast<std::uint32_t>(std::min(blocks, kMost));
}

}  // namespace troupe::exec
