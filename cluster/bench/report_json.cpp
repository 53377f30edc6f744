// The report as JSON. Keys carry their units; a rate has the keys best_, median_, worst_ ... See report.h.
#include "cluster/bench/report.h"

#include <nlohmann/json.hpp>

#include <cmath>

namespace troupe::cluster::bench {
namespace {

using Json = nlohmann::ordered_json;

/// Four digits behind the point are more than any of these measurements knows.
double rounded(double value) { return std::round(value * 1e4) / 1e4; }

/// Each figure names what it was measured with.
void add_setting(Json& json, const Setting& setting) {
  if (!setting.url.empty()) {
    json["url"] = setting.url;
    return;
  }
  json["weights"] = setting.weights;
  json["activations"] = setting.activations;
  json["kv_format"] = setting.kv;
  json["isa"] = setting.isa;
  json["threads"] = setting.threads;
}

void add_rates(Json& json, const Rates& rates) {
  json["best_tokens_per_second"] = rounded(rates.best);
  json["median_tokens_per_second"] = rounded(rates.median);
  json["worst_tokens_per_second"] = rounded(rates.worst);
  json["spread_percent"] = rounded(rates.spread_percent());
  json["repetitions"] = rates.count;
}

Json of(const PrefillFigure& figure, const Setting& setting) {
  Json json{{"run", "prefill"}, {"batch", 1}, {"rows", figure.tokens}};
  add_rates(json, figure.tokens_per_second);
  json["step_ms"] = rounded(figure.tokens_per_second.median > 0 ? figure.tokens * 1e3 / figure.tokens_per_second.median : 0);
  json["gflops"] = rounded(figure.gflops);
  add_setting(json, setting);
  return json;
}

Json of(const DecodeFigure& figure, const Setting& setting) {
  Json json{{"run", "decode"}, {"batch", figure.batch}, {"rows", figure.batch}, {"context_tokens", figure.context}};
  add_rates(json, figure.tokens_per_second);
  json["median_tokens_per_second_per_sequence"] = rounded(figure.tokens_per_second.median / figure.batch);
  json["step_ms"] = rounded(figure.step_ms);
  json["gigabytes_per_second"] = rounded(figure.gigabytes_per_second);
  add_setting(json, setting);
  return json;
}

std::string kind_name(StepPart::Kind kind) {
  switch (kind) {
    case StepPart::Kind::kProduct: return "product";
    case StepPart::Kind::kOtherKernel: return "other kernel";
    case StepPart::Kind::kExecutor: return "executor";
    case StepPart::Kind::kScheduler: return "scheduler";
    case StepPart::Kind::kWaiting: return "between steps";
  }
  return {};
}

Json of(const StepFigure& figure, const Setting& setting) {
  Json json{{"path", figure.path},
            {"batch", figure.batch},
            {"context_tokens", figure.context},
            {"step_ms", rounded(figure.step_us / 1e3)},
            {"bare_step_ms", rounded(figure.bare_step_us / 1e3)},
            {"outside_kernels_percent", rounded(figure.outside_percent())},
            {"loss_to_bare_step_percent", rounded(figure.loss_percent())}};
  json["parts"] = Json::array();
  for (const StepPart& part : figure.parts) {
    Json row{{"name", part.name}, {"kind", kind_name(part.kind)}, {"us", rounded(part.us)}};
    row["percent"] = rounded(figure.step_us > 0 ? 100 * part.us / figure.step_us : 0);
    if (part.gops > 0) row["gops"] = rounded(part.gops);
    if (part.gigabytes_per_second > 0) row["gigabytes_per_second"] = rounded(part.gigabytes_per_second);
    json["parts"].push_back(std::move(row));
  }
  if (!figure.threads.empty()) json["processor_us"] = Json::object();
  for (const ThreadShare& share : figure.threads) json["processor_us"][share.name] = rounded(share.us);
  add_setting(json, setting);
  return json;
}

Json of(const PeakFigure& figure) {
  return {{"what", figure.what}, {"isa", figure.isa}, {"threads", figure.threads}, {"value", rounded(figure.value)}, {"unit", figure.unit}};
}

Json of(const ProductFigure& figure) {
  return {{"name", figure.name},
          {"weights", figure.format},
          {"outputs", figure.outputs},
          {"inputs", figure.inputs},
          {"rows", figure.rows},
          {"isa", figure.isa},
          {"threads", figure.threads},
          {"gops", rounded(figure.gops)},
          {"share_of_peak_percent", rounded(figure.share_percent())},
          {"gigabytes_per_second", rounded(figure.gigabytes_per_second)},
          {"share_of_bandwidth_percent", rounded(figure.bandwidth_percent())}};
}

Json of(const Latency& latency) {
  if (latency.count == 0) return nullptr;
  return {{"p50", rounded(latency.p50)},   {"p90", rounded(latency.p90)}, {"p99", rounded(latency.p99)},
          {"mean", rounded(latency.mean)}, {"max", rounded(latency.max)}, {"n", latency.count}};
}

Json of(const HttpFigure& figure, const Setting& setting) {
  Json json{{"scenario", figure.scenario},
            {"clients", figure.clients},
            {"requests", figure.requests},
            {"errors", figure.errors},
            {"first_error", figure.first_error.empty() ? Json(nullptr) : Json(figure.first_error)},
            {"wall_s", rounded(figure.wall_seconds)},
            {"output_tok_s", rounded(figure.output_tokens_per_second)},
            {"prompt_tok_s", rounded(figure.prompt_tokens_per_second)},
            {"prompt_tokens_mean", rounded(figure.prompt_tokens)},
            {"cached_tokens_mean", rounded(figure.cached_tokens)},
            {"cached_tokens_mean_by_tier",
             {{"device", rounded(figure.tiers.device)}, {"host", rounded(figure.tiers.host)}, {"disk", rounded(figure.tiers.disk)}}},
            {"output_tokens_mean", rounded(figure.output_tokens)},
            {"ttft_ms", of(figure.first_token)},
            {"tpot_ms", of(figure.per_token)},
            {"itl_ms", of(figure.between_tokens)},
            {"e2e_ms", of(figure.whole)}};
  if (!figure.first_token_by_turn.empty()) {
    json["ttft_ms_p50_by_turn"] = Json::array();
    for (const double ms : figure.first_token_by_turn) json["ttft_ms_p50_by_turn"].push_back(rounded(ms));
  }
  if (figure.newcomer_prompt_tokens > 0) {
    json["newcomer_prompt_tokens"] = figure.newcomer_prompt_tokens;
    json["newcomer_ttft_ms"] = rounded(figure.newcomer_first_token_ms);
    json["itl_before_ms"] = of(figure.before);
    json["itl_during_ms"] = of(figure.during);
    json["itl_after_ms"] = of(figure.after);
  }
  add_setting(json, setting);
  return json;
}

Json of(const CacheFigure& figure, const Setting& setting) {
  Json json{{"where", figure.where}, {"cached_percent", rounded(figure.cached_percent())}};
  if (figure.ratio > 0) json["ratio_to"] = {{"where", figure.against}, {"ratio", rounded(figure.ratio)}};
  json.update(of(figure.load, setting));
  return json;
}

Json of(const Machine& machine) {
  return {{"cpu", machine.cpu},
          {"cores", machine.cores},
          {"l1d_bytes", machine.l1d_bytes},
          {"l2_bytes", machine.l2_bytes},
          {"l3_bytes", machine.l3_bytes},
          {"memory_bytes", machine.memory_bytes},
          {"system", machine.system},
          {"load_average", rounded(machine.load)}};
}

}  // namespace

std::string report_json(const Report& report) {
  Json json{{"program", "troupe " + report.version}, {"build", report.build}, {"date", report.date}, {"machine", of(report.machine)}};
  json["model"] = report.setting.model;
  add_setting(json, report.setting);
  json["shard"] = report.shard;
  json["options"] = Json::object();
  for (const auto& [name, value] : report.options) json["options"][name] = value;
  json["interrupted"] = report.interrupted;
  json["notes"] = report.notes;
  for (const char* key : {"runs", "steps", "peaks", "products", "http", "cache"}) json[key] = Json::array();
  for (const auto& figure : report.prefill) json["runs"].push_back(of(figure, report.setting));
  for (const auto& figure : report.decode) json["runs"].push_back(of(figure, report.setting));
  for (const auto& figure : report.steps) json["steps"].push_back(of(figure, report.setting));
  for (const auto& figure : report.peaks) json["peaks"].push_back(of(figure));
  for (const auto& figure : report.products) json["products"].push_back(of(figure));
  for (const auto& figure : report.http) json["http"].push_back(of(figure, report.setting));
  for (const auto& figure : report.cache) json["cache"].push_back(of(figure, report.setting));
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace troupe::cluster::bench
