// See tp_suite.h.
#include "cluster/bench/tp_suite.h"

#include "cluster/bench/machine.h"
#include "cluster/bench/overlap_picture.h"
#include "cluster/bench/statistics.h"
#include "cluster/launch/host_view.h"
#include "cluster/model_facts.h"
#include "cluster/node_options.h"
#include "messages/error_reasons.h"
#include "runtime/base/metric_names.h"
#include "runtime/plan/forward_plan.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <thread>

namespace troupe::cluster::bench {
namespace {

constexpr ModelShape kWide{.layers = 6, .hidden = 2048, .ffn = 5632, .q_heads = 32, .kv_heads = 4, .head_dim = 64};
constexpr ModelShape kSmall{.layers = 30, .hidden = 576, .ffn = 1536, .q_heads = 9, .kv_heads = 3, .head_dim = 64};
constexpr ModelShape kWider{.layers = 6, .hidden = 4096, .ffn = 11008, .q_heads = 32, .kv_heads = 8, .head_dim = 128};
constexpr std::array kSettings{TpSetting{"A", kWide, 2048}, TpSetting{"B", kSmall, 2048}, TpSetting{"C", kWider, 1024},
                               TpSetting{"D", kWide, 2048, 10'000}};

struct Variant {
  const char *key, *codec, *overlap;
};
constexpr std::array kVariants{Variant{"bf16_plain", "bf16", "off"}, Variant{"int8_plain", "int8", "off"},
                               Variant{"bf16_iso", "bf16", "auto"}, Variant{"int8_iso", "int8", "auto"}, Variant{"auto", "auto", "auto"}};
constexpr const char *kPlain = "int8_plain", *kIso = "int8_iso", *kAuto = "auto";

constexpr std::uint32_t kDecodePrompt = 32, kDecodeTokens = 65;
constexpr std::chrono::milliseconds kMetricsCome{150};  // behind the answer
constexpr double kInt8Bits = 8.24;                      // a value, scales and framing included
constexpr int kCalibrations = 3;
constexpr std::uint32_t kFirstOfText = 256;  // of MODEL: behind control tokens and single bytes

}  // namespace

const TpSetting& tp_setting(std::string_view name) {
  return *std::find_if(kSettings.begin(), kSettings.end(), [&](const TpSetting& setting) { return setting.name == name; });
}

TpSuite::TpSuite(const Options& options, ProgressBar& bar, const std::atomic<bool>& stop)
    : options_(options), setting_(tp_setting(options.setting)), shape_(setting_.shape), bar_(bar), stop_(stop) {
  random_.seed(options.seed != 0 ? options.seed : std::random_device{}());
  figures_.setting = setting_.name;
  figures_.prompt_tokens = setting_.prompt_tokens;
  figures_.cpu = this_machine().cpu;
}

TpSuite::~TpSuite() {
  servers_.clear();
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

Status TpSuite::measure() {
  if (auto status = prepare(); !status) return status;
  const bool fixed = setting_.megabits > 0 || options_.link_rate > 0;
  if (fixed) {
    figures_.megabits = options_.link_rate > 0 ? options_.link_rate : setting_.megabits;
    if (auto status = link_->shape(figures_.megabits); !status) return status;
  }
  if (auto status = start(kPlain); !status) return status;
  if (!fixed)
    if (auto status = calibrate(); !status) return status;
  // The others measure the link when they start: it is as it will be.
  for (const Variant& variant : kVariants)
    if ((std::string_view(variant.key) != kAuto || setting_.name == "D") && !servers_.contains(variant.key))
      if (auto status = start(variant.key); !status) return status;
  if (auto status = rounds(); !status) return status;
  for (auto& [key, server] : servers_) server->end();
  if (auto status = evaluate(); !status) return status;
  return write_pictures();
}

Status TpSuite::prepare() {
  const std::filesystem::path parent = cache_folder(options_, process_environment);
  std::error_code fault;
  if (parent.empty()) return make_error(ErrorClass::kInvalidRequest, ErrorReason::kBadConfig, "suite tp needs a folder: --cache-dir");
  const std::filesystem::path folder = parent / "bench-tp";  // what a crashed run has left goes
  std::filesystem::remove_all(folder, fault);
  std::filesystem::create_directories(folder, fault);
  if (fault) return make_error(ErrorClass::kStorageFailed, ErrorReason::kBadConfig, "cannot write " + folder.string());
  folder_ = folder;
  auto link = ShapedLink::make();
  if (!link) return link.error();
  link_ = std::move(*link);
  if (options_.model.empty()) {
    show(0, "a model of random weights");
    model_ = folder_ / "random.gguf";
    figures_.model = "random Q8_0, " + std::to_string(shape_.layers) + " layers of " + std::to_string(shape_.hidden);
    return write_random_model(shape_, 1, model_);
  }
  auto facts = read_model_facts(options_.model);
  if (!facts) return facts.error();
  const auto unfit = [&](const std::string& why) {
    return make_error(ErrorClass::kInvalidRequest, ErrorReason::kBadConfig, options_.model + ": " + why, "model");
  };
  if (!facts->problems.empty()) return unfit(facts->problems.front());
  const model::ModelConfig& config = *facts->config;
  if (config.vocabulary <= kFirstOfText)
    return unfit("prompts are made of tokens from " + std::to_string(kFirstOfText) + " on; it has none");
  shape_.layers = static_cast<std::uint32_t>(config.layers);
  shape_.hidden = static_cast<std::uint32_t>(config.hidden);
  model_ = std::filesystem::absolute(options_.model);
  figures_.model = model_.filename().string();
  first_id_ = kFirstOfText;
  ids_ = static_cast<std::uint32_t>(config.vocabulary) - first_id_;
  return ok_status();
}

Status TpSuite::start(const std::string& key) {
  const Variant& variant = *std::find_if(kVariants.begin(), kVariants.end(), [&](const Variant& v) { return v.key == key; });
  show(0, "starts " + key);
  TpServerSpec spec{key, model_, folder_, variant.codec, variant.overlap, options_.activations, options_.kv_format, options_.isa, {}};
  const std::vector<std::uint16_t> cores = launch::this_host().cores;
  if (cores.size() < TpServer::kRanks)
    return make_error(ErrorClass::kInvalidRequest, ErrorReason::kBadConfig, "suite tp needs two cores, one a rank");
  spec.cores.assign(cores.begin(), cores.begin() + TpServer::kRanks);
  auto server = TpServer::start(spec, stop_);
  if (!server) return server.error();
  servers_[key] = std::move(*server);
  auto first = first_token(key);  // what a server does once
  return first ? ok_status() : Status(first.error());
}

/// The 8-bit rows of a layer shall travel as long as one rank computes a layer. (Of the last layer only the wanted rows travel, so all in
/// all the wire has a little less to do.)
Status TpSuite::calibrate() {
  show(0, "measures the compute time");
  std::vector<double> computes;
  for (int i = 0; i < kCalibrations; ++i) {
    auto prefill = first_token(kPlain);
    if (!prefill) return prefill.error();
    computes.push_back(prefill->ttft() - prefill->exposed);
  }
  figures_.megabits = 2.0 * shape_.layers * shape_.hidden * setting_.prompt_tokens * kInt8Bits / median(computes) / 1e6;
  return link_->shape(figures_.megabits);
}

std::vector<TokenId> TpSuite::prompt(std::uint32_t tokens) {
  std::vector<TokenId> out(tokens);
  for (TokenId& token : out) token = first_id_ + static_cast<TokenId>(random_() % ids_);
  return out;
}

Result<TpSuite::Prefill> TpSuite::first_token(const std::string& key) {
  TpServer& server = *servers_[key];
  const double wire = server.metric(base::metric::kWireSeconds), waited = server.metric(base::metric::kWireWaitSeconds);
  auto answer = server.ask(prompt(setting_.prompt_tokens), 1);  // one token: its end is when the first has come
  if (!answer) return answer.error();
  std::this_thread::sleep_for(kMetricsCome);
  return Prefill{answer->start, answer->end, server.metric(base::metric::kWireSeconds) - wire,
                 server.metric(base::metric::kWireWaitSeconds) - waited};
}

Status TpSuite::decode(const std::string& key) {
  auto answer = servers_[key]->ask(prompt(kDecodePrompt), kDecodeTokens);
  if (!answer) return answer.error();
  if (!answer->stamps.empty() && answer->output_tokens > 1)
    figures_.by_server[key].decode_tok_s.push_back(static_cast<double>(answer->output_tokens - 1) / (answer->end - answer->stamps.front()));
  return ok_status();
}

Status TpSuite::rounds() {
  const auto all = static_cast<std::uint32_t>(options_.repetitions);
  for (std::uint32_t round = 0; round < all && !stop_.load(); ++round) {
    for (const auto& [key, server] : servers_) {
      show(static_cast<double>(round) / all, key + ", round " + std::to_string(round + 1) + " of " + std::to_string(all));
      auto prefill = first_token(key);
      if (!prefill) return prefill.error();
      prefills_[key].push_back(*prefill);
      TpFigure& figure = figures_.by_server[key];
      figure.ttft_s.push_back(prefill->ttft());
      figure.wire_s.push_back(prefill->wire);
      figure.exposed_s.push_back(prefill->exposed);
    }
    for (const auto& [key, server] : servers_)
      if (auto status = decode(key); !status) return status;
    figures_.rounds = round + 1;
  }
  if (servers_.contains(kAuto)) figures_.chosen_codec = servers_[kAuto]->codec();
  for (const auto& [key, server] : servers_) figures_.by_server[key].overlapped_steps = server->metric(base::metric::kOverlappedSteps);
  return ok_status();
}

Status TpSuite::evaluate() {
  for (const char* key : {kPlain, kIso}) {
    auto steps = read_traces(servers_[key]->trace(), TpServer::kRanks);
    if (!steps) return steps.error();
    traces_[key] = std::move(*steps);
  }
  std::vector<double> bounds, computes, wires, idle;
  for (const Prefill& prefill : prefills_[kPlain]) {
    double saved = 0, compute = 0, wire = 0;
    for (const auto& [step, spans] : within(traces_[kPlain], prefill.begin, prefill.end)) {
      const std::vector<SegmentTimes> segments = segments_of(spans);
      saved += plain_time(segments) - overlap_bound(segments, plan::kMostParts);
      for (const SegmentTimes& segment : segments) {
        compute += segment.compute;
        wire += segment.wire;
      }
    }
    bounds.push_back(prefill.ttft() - saved);
    computes.push_back(compute);
    wires.push_back(wire);
  }
  for (const Prefill& prefill : prefills_[kIso])
    idle.push_back((prefill.exposed + between_steps(within(traces_[kIso], prefill.begin, prefill.end))) / prefill.ttft());
  figures_.iso_bound_s = median(bounds);
  figures_.compute_s = median(computes);
  figures_.wire_s = median(wires);
  figures_.idle_share = median(idle);
  return ok_status();
}

/// Of steps that took as long as half of them do.
Status TpSuite::write_pictures() {
  if (options_.step_trace.empty() && options_.picture.empty()) return ok_status();
  std::vector<std::vector<TraceSpan>> shown;
  for (const char* key : {kPlain, kIso}) {
    std::vector<std::vector<TraceSpan>> of_prompts;
    for (const Prefill& prefill : prefills_[key])
      for (auto& [step, spans] : within(traces_[key], prefill.begin, prefill.end)) of_prompts.push_back(spans);
    if (of_prompts.empty()) return ok_status();
    std::sort(of_prompts.begin(), of_prompts.end(), [](const auto& a, const auto& b) { return duration(a) < duration(b); });
    shown.push_back(of_prompts[of_prompts.size() / 2]);
    if (std::string_view(key) != kIso || options_.step_trace.empty()) continue;
    const Prefill& last = prefills_[key].back();
    if (auto status = merge_traces(within(traces_[key], last.begin, last.end), options_.step_trace); !status) return status;
  }
  if (options_.picture.empty()) return ok_status();
  if ((std::ofstream(options_.picture, std::ios::trunc) << overlap_picture(shown[0], shown[1])).flush()) return ok_status();
  return make_error(ErrorClass::kStorageFailed, ErrorReason::kBadConfig, "cannot write " + options_.picture);
}

}  // namespace troupe::cluster::bench
