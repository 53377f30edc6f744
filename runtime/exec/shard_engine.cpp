#include "runtime/exec/shard_engine.h"

#include "messages/error_reasons.h"
#include "runtime/base/log.h"
#include "runtime/base/phase_clock.h"
#include "runtime/collective/codec_table.h"
#include "runtime/exec/kv_memory.h"
#include "runtime/exec/rank_group.h"
#include "runtime/exec/step_trace.h"
#include "runtime/weights/gguf_file.h"
#include "runtime/weights/pack_cache.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <new>
#include <string_view>

namespace troupe::exec {
namespace {

template <class Value>
struct NamedOption {
  std::string_view name;
  Value value;
};
constexpr std::array<NamedOption<kernels::Activations>, 4> kActivations{{
    {"int8", kernels::Activations::kInt8Group32},
    {"int8-token", kernels::Activations::kInt8Token},
    {"bf16", kernels::Activations::kBf16},
    {"fp32", kernels::Activations::kFp32},
}};
constexpr std::array<NamedOption<kernels::WeightFormat>, 2> kWeightFormats{{
    {"file", kernels::WeightFormat::kFile},
    {"int8-channel", kernels::WeightFormat::kInt8Channel},
}};

/// In place of a codec's name: the ranks measure.
constexpr std::string_view kMeasuredCodec = "auto";

Error bad_option(const std::string& option, std::string what) {
  return make_error(ErrorClass::kInvalidRequest, ErrorReason::kBadConfig, option + ": " + std::move(what), option);
}

template <class Table>
auto look_up(const Table& table, const std::string& option, const std::string& name) -> Result<decltype(table[0].value)> {
  std::string known;
  for (const auto& row : table) {
    if (row.name == name) return row.value;
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  return bad_option(option, "'" + name + "' is not one of " + known);
}

/// Whether steps run, for those who should give way to them. Any thread.
class Activity {
 public:
  class Step {
   public:
    explicit Step(Activity& activity) : activity_(activity) { activity_.running_ = true; }
    ~Step() {
      activity_.ended_ = now();
      activity_.running_ = false;
    }
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;

   private:
    Activity& activity_;
  };
  /// Between two steps of a stream there is a little time.
  bool lately() const { return running_ || now() - ended_ < kBetweenSteps; }

 private:
  static constexpr std::int64_t kBetweenSteps = 50'000'000;  // ns
  static std::int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }
  std::atomic<bool> running_{false};
  std::atomic<std::int64_t> ended_{0};
};

class CpuShardEngine final : public ShardEngine {
 public:
  CpuShardEngine(Faults faults, BackendWrap wrap) : faults_(std::move(faults)), wrap_(std::move(wrap)) {}

  Result<ShardFacts> load(const ShardSpec& spec, const std::function<void(std::size_t, std::size_t)>& progress) override {
    TROUPE_CHECK(!executor_);
    try {
      return load_all(spec, progress);
    } catch (const std::bad_alloc&) {
      return make_error(ErrorClass::kUnavailable, ErrorReason::kOutOfMemory,
                        "not enough memory for the model and its cache; give less with --kv-memory", "kv-memory");
    }
  }

  Result<EpochFacts> enter_epoch(const EpochEntry& entry, const std::atomic<bool>& abort) override {
    TROUPE_CHECK(executor_);
    if (group_) return enter_group(entry, abort);
    executor_->enter_epoch(entry.epoch);
    return EpochFacts{{}, numerics_, {}};
  }

  void leave_epoch() override {
    if (!executor_) return;
    executor_->leave_epoch();
    if (trace_) trace_->flush();
    if (group_) group_->leave();
  }

  bool settle() noexcept override { return !group_ || group_->collective() == nullptr || group_->collective()->settle(); }

  std::string data_address() override { return group_ ? group_->address() : std::string(); }

  plan::ForwardResult run(const plan::ForwardPlan& plan, const std::atomic<bool>& abort) override {
    TROUPE_CHECK(executor_);
    const Activity::Step step(activity_);
    return executor_->run(plan, abort);
  }

  RankStores* stores() override { return stores_.get(); }

 private:
  Result<EpochFacts> enter_group(const EpochEntry& entry, const std::atomic<bool>& abort) {
    std::optional<kernels::WireFormat> format;
    if (entry.codec != kMeasuredCodec) {
      const auto found = collective::find_codec(entry.codec);
      if (!found) return found.error();
      format = *found;
    }
    const auto met = group_->meet({entry.epoch, entry.token, entry.addresses, place_.rank}, format, *model_, executor_->kv_cache(), abort);
    if (!met) return met.error();
    executor_->enter_epoch(entry.epoch, group_->collective());
    const std::string codec(collective::codec_name(met->format));
    const Hash128 numerics = model::numerics_id(content_, weight_format_, activations_, kv_format_, place_.shape, codec);
    TROUPE_CHECK(!stores_are_open_ || numerics == numerics_);  // what is stored belongs to one id
    numerics_ = numerics;
    if (auto opened = open_stores(); !opened) return opened.error();
    return EpochFacts{codec, numerics_, met->speed};
  }

  Result<ShardFacts> load_all(const ShardSpec& spec, const model::LoadProgress& progress) {
    place_ = spec.place;
    TROUPE_CHECK(place_.shape.ranks() > 0 && place_.rank < place_.shape.ranks());
    const auto activations = look_up(kActivations, "activations", spec.activations);
    if (!activations) return activations.error();
    const auto weight_format = look_up(kWeightFormats, "weights", spec.weights);
    if (!weight_format) return weight_format.error();
    const auto kv_format = find_kv_format(spec.kv_format);
    if (!kv_format) return kv_format.error();
    base::PhaseClock clock;
    auto file = weights::GgufFile::open(spec.model_path);
    if (!file) return file.error();
    const auto config = model::read_config(**file);  // before anything large
    if (!config) return config.error();

    try {
      backend_ = kernels::make_cpu_backend({spec.threads, spec.pin, spec.spin_us, spec.isa, *activations, *weight_format});
      if (wrap_) backend_ = wrap_(std::move(backend_));
    } catch (const std::invalid_argument& refused) {
      return bad_option("isa", refused.what());
    }
    model::LoadPart part;
    part.place = place_;
    part.slice_head = spec.transport.interface.empty();  // across a network, a slice of logits takes longer than the whole product
    if (const auto slice = model::slice_model(*config, part); !slice) return slice.error();
    // Of the whole model, so that all ranks come to the same number.
    const std::uint64_t block_bytes = kernels::kv_block_bytes({config->layers, config->kv_heads, config->head_dim, 1, *kv_format, false});
    const auto blocks = choose_device_blocks(block_bytes, config->context, spec.device_bytes, usable_memory());
    if (!blocks) return blocks.error();
    const auto places = choose_places(spec, *blocks, block_bytes);
    if (!places) return places.error();
    clock.mark("open");
    const base::CacheFolder folder{std::filesystem::path(spec.cache_folder)};
    const auto content = weights::content_of((*file)->disk_file(), spec.known_content, folder);
    if (!content) return content.error();
    if (spec.known_content && content->hash != spec.known_content->hash)  // running streams would go on with another model
      return (*file)->disk_file().unreadable("the model file was replaced since the start; start anew to serve it");
    clock.mark("content");
    auto cache = std::make_unique<weights::PackCache>(folder, content->hash, backend_->pack_layout() + model::part_name(part));
    auto model = model::load_model(*file, *backend_, progress, cache.get(), part);
    if (!model) return model.error();
    // Else weights of one content would be served, and kept packed, under the name of another.
    if (!(*file)->disk_file().unchanged())
      return (*file)->disk_file().unreadable("it was written to while it was read; start again when it is whole");
    model_ = std::move(*model);
    cache_ = std::move(cache);
    clock.mark("weights");
    if (!spec.trace_file.empty()) trace_ = std::make_unique<StepTrace>(spec.trace_file, place_.rank);
    executor_ =
        std::make_unique<Executor>(*model_, *backend_, ExecutorOptions{*blocks, *kv_format, faults_.step, false, place_, trace_.get()});
    clock.mark("executor");
    content_ = content->hash;
    weight_format_ = *weight_format;
    activations_ = *activations;
    kv_format_ = *kv_format;
    places_ = *places;
    cache_folder_ = spec.cache_folder;
    numerics_ = model::numerics_id(content_, weight_format_, activations_, kv_format_, place_.shape);
    ShardFacts facts = describe(spec, *blocks);
    if (auto prepared = prepare_group(spec, facts); !prepared) return prepared.error();
    cache_->write_in_background();
    if (!spec.cache_in_background) cache_->finish();
    base::log(base::LogLevel::kDebug, "shard_loaded", clock.fields() + " packed_from=" + (facts.weights_cached ? "cache" : "file"));
    return facts;
  }

  struct Places {
    std::uint32_t host = 0, disk = 0;
  };
  static Result<Places> choose_places(const ShardSpec& spec, std::uint32_t device_blocks, std::uint64_t block_bytes) {
    const std::uint64_t memory = usable_memory(), device = device_blocks * block_bytes;
    const auto host = choose_store_blocks("host-cache", spec.host_bytes, block_bytes, memory - std::min(memory, device));
    if (!host) return host.error();
    const auto disk = choose_store_blocks("disk-cache", spec.disk_bytes, block_bytes, UINT64_MAX);
    if (!disk) return disk.error();
    if (*disk > 0 && spec.cache_folder.empty()) return bad_option("disk-cache", "it needs a folder; give one with --cache-dir");
    return Places{*host, *disk};
  }

  /// A rank alone opens its stores at once; ranks that meet do it when they know their codec, and open their port.
  Status prepare_group(const ShardSpec& spec, ShardFacts& facts) {
    facts.host_blocks = places_.host;
    facts.disk_blocks = places_.disk;
    if (place_.shape.ranks() > 1) {
      auto group = RankGroup::open(place_, spec.transport, *backend_, spec.spin_us);
      if (!group) return group.error();
      group_ = std::move(*group);
      return ok_status();
    }
    if (auto opened = open_stores(); !opened) return opened.error();
    facts.host_blocks = stores_ ? stores_->host_blocks() : 0;
    facts.disk_blocks = stores_ ? stores_->disk_blocks() : 0;
    return ok_status();
  }

  /// Once; the domain tells ranks and codecs apart, so no two share a file.
  Status open_stores() {
    if (stores_are_open_) return ok_status();
    RankStoresSpec stores;
    stores.host_blocks = places_.host;
    stores.disk_blocks = places_.disk;
    stores.domain = store_domain({content_, numerics_, executor_->kv_cache().block_layout() + rank_name()});
    stores.folder = cache_folder_;
    stores.slow = faults_.slow;
    stores.computing = [this] { return activity_.lately(); };
    stores.will_load = [executor = executor_.get()](BlockId block) { executor->will_load(block); };
    auto opened = RankStores::open(executor_->kv_cache(), std::move(stores));
    if (!opened) return opened.error();
    stores_are_open_ = true;
    stores_ = std::move(*opened);
    if (stores_) executor_->watch_writes([below = stores_.get()](BlockId block) { below->hand_out(block); });
    return ok_status();
  }

  /// Empty for a rank alone, as before there were others: what it has on disk is found again.
  std::string rank_name() const { return place_.shape.ranks() == 1 ? std::string() : " rank " + std::to_string(place_.rank); }

  ShardFacts describe(const ShardSpec& spec, std::uint32_t blocks) const {
    ShardFacts facts;
    facts.content = content_;
    facts.weights_cached = cache_->complete();
    facts.numerics = numerics_;
    facts.device_blocks = blocks;
    facts.block_bytes = executor_->kv_cache().block_bytes();
    facts.context_tokens = static_cast<std::uint32_t>(model_->config().context);
    facts.kv_bytes = executor_->kv_bytes();
    facts.weight_bytes = model_->weight_bytes();
    char line[256];
    std::snprintf(line, sizeof line, "%s, %zu layers, %.0f MiB of weights%s; %s; activations %s; KV %s, %.0f MiB = %zu tokens",
                  model_->config().architecture.c_str(), model_->slice().layers.count, static_cast<double>(facts.weight_bytes) / (1 << 20),
                  spec.weights == "file" ? "" : (" as " + spec.weights).c_str(), backend_->description().c_str(), spec.activations.c_str(),
                  spec.kv_format.c_str(), static_cast<double>(facts.kv_bytes) / (1 << 20), static_cast<std::size_t>(blocks) * kBlockTokens);
    facts.description = line;
    return facts;
  }

  Faults faults_;
  BackendWrap wrap_;
  std::unique_ptr<kernels::Backend> backend_;
  std::unique_ptr<model::Model> model_;
  std::unique_ptr<weights::PackCache> cache_;  // reads the model's weights while it writes
  std::unique_ptr<StepTrace> trace_;           // null: off
  std::unique_ptr<Executor> executor_;
  Activity activity_;
  // What was loaded.
  base::ShardPlace place_;
  Hash128 content_, numerics_;
  kernels::WeightFormat weight_format_{};
  kernels::Activations activations_{};
  kernels::KvFormat kv_format_{};
  Places places_;
  std::string cache_folder_;
  std::unique_ptr<RankStores> stores_;  // over the executor's cache
  bool stores_are_open_ = false;
  std::unique_ptr<RankGroup> group_;  // null with one rank
};

}  // namespace

std::unique_ptr<ShardEngine> make_shard_engine(Faults faults, BackendWrap wrap) {
  return std::make_unique<CpuShardEngine>(std::move(faults), std::move(wrap));
}

}  // namespace troupe::exec
