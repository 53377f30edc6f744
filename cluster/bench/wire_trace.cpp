// See wire_trace.h.
#include "cluster/bench/wire_trace.h"

#include "messages/error_reasons.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>

namespace troupe::cluster::bench {
namespace {

using Json = nlohmann::json;
constexpr double kMicro = 1e-6;
constexpr int kComputeLane = 1, kWireLane = 2;

Error no_trace(const std::filesystem::path& path, const std::string& why) {
  return make_error(ErrorClass::kStorageFailed, ErrorReason::kUnclassified, "trace " + path.string() + ": " + why);
}

void add_event(const Json& event, std::uint32_t rank, StepSpans& steps) {
  if (event.at("ph") != "X") return;
  TraceSpan span;
  span.name = event.at("name").get<std::string>();
  span.rank = rank;
  span.on_wire = event.at("tid").get<int>() == kWireLane;
  span.begin = event.at("ts").get<double>() * kMicro;
  span.end = span.begin + event.at("dur").get<double>() * kMicro;
  steps[event.at("args").at("step").get<std::uint64_t>()].push_back(std::move(span));
}

/// When rank 0 began to compute, and when it ended.
std::pair<double, double> time_of(const std::vector<TraceSpan>& step) {
  std::pair<double, double> out{0, 0};
  for (const TraceSpan& span : step) {
    if (span.rank != 0) continue;
    if (out.second == 0) out = {span.begin, span.end};
    out = {std::min(out.first, span.begin), std::max(out.second, span.end)};
  }
  return out;
}

}  // namespace

Result<StepSpans> read_traces(const std::filesystem::path& path, std::uint32_t ranks) {
  StepSpans steps;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const std::filesystem::path file = path.string() + ".rank" + std::to_string(rank) + ".json";
    std::ifstream in(file);
    if (!in) return no_trace(file, "cannot be read");
    try {
      for (const Json& event : Json::parse(in)) add_event(event, rank, steps);
    } catch (const nlohmann::json::exception& fault) {
      return no_trace(file, fault.what());
    }
  }
  for (auto& [step, spans] : steps)
    std::stable_sort(spans.begin(), spans.end(),
                     [](const TraceSpan& a, const TraceSpan& b) { return a.on_wire != b.on_wire ? b.on_wire : a.begin < b.begin; });
  return steps;
}

StepSpans within(const StepSpans& steps, double begin, double end) {
  StepSpans out;
  for (const auto& [step, spans] : steps)
    if (const double start = time_of(spans).first; start >= begin && start < end) out.emplace(step, spans);
  return out;
}

std::vector<SegmentTimes> segments_of(const std::vector<TraceSpan>& step) {
  struct Reduce {
    double begin = 0, end = 0;
  };
  std::map<std::string, Reduce> by_name;
  for (const TraceSpan& span : step) {
    if (!span.on_wire) continue;
    Reduce& reduce = by_name[span.name];
    reduce = {std::max(reduce.begin, span.begin), std::max(reduce.end, span.end)};
  }
  std::vector<Reduce> reduces;
  for (const auto& [name, reduce] : by_name) reduces.push_back(reduce);
  std::sort(reduces.begin(), reduces.end(), [](const Reduce& a, const Reduce& b) { return a.begin < b.begin; });
  std::vector<SegmentTimes> out;
  auto [at, last] = time_of(step);
  for (const Reduce& reduce : reduces) {
    out.push_back({std::max(0.0, reduce.begin - at), std::max(0.0, reduce.end - std::max(at, reduce.begin))});
    at = std::max(at, reduce.end);
  }
  if (last > at) out.push_back({last - at, 0});
  return out;
}

double duration(const std::vector<TraceSpan>& step) {
  const auto [begin, end] = time_of(step);
  return end - begin;
}

double between_steps(const StepSpans& steps) {
  double sum = 0, last = 0;
  for (const auto& [step, spans] : steps) {
    const auto [begin, end] = time_of(spans);
    if (last > 0) sum += std::max(0.0, begin - last);
    last = std::max(last, end);
  }
  return sum;
}

Status merge_traces(const StepSpans& steps, const std::filesystem::path& to) {
  std::map<std::uint32_t, bool> ranks;
  Json events = Json::array();
  for (const auto& [step, spans] : steps)
    for (const TraceSpan& span : spans) {
      const int lane = span.on_wire ? kWireLane : kComputeLane;
      if (ranks.emplace(span.rank, true).second) {
        events.push_back(
            {{"name", "process_name"}, {"ph", "M"}, {"pid", span.rank}, {"args", {{"name", "rank " + std::to_string(span.rank)}}}});
        for (const auto& [tid, name] : {std::pair{kComputeLane, "compute"}, std::pair{kWireLane, "wire"}})
          events.push_back({{"name", "thread_name"}, {"ph", "M"}, {"pid", span.rank}, {"tid", tid}, {"args", {{"name", name}}}});
      }
      events.push_back({{"name", span.name},
                        {"cat", span.on_wire ? "wire" : "compute"},
                        {"ph", "X"},
                        {"pid", span.rank},
                        {"tid", lane},
                        {"ts", span.begin / kMicro},
                        {"dur", (span.end - span.begin) / kMicro},
                        {"args", {{"step", step}}}});
    }
  std::ofstream out(to, std::ios::trunc);
  out << "[";
  for (std::size_t i = 0; i < events.size(); ++i) out << (i == 0 ? "\n" : ",\n") << events[i].dump();
  out << "\n]\n";
  if (out.flush()) return ok_status();
  return no_trace(to, "cannot be written");
}

}  // namespace troupe::cluster::bench
