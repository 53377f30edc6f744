// The figures of the suite tp as a table and as JSON. See tp_suite.h.
#include "cluster/bench/print.h"
#include "cluster/bench/statistics.h"
#include "cluster/bench/tp_suite.h"

#include <nlohmann/json.hpp>

#include <cmath>

namespace troupe::cluster::bench {
namespace {

using Json = nlohmann::ordered_json;
constexpr const char* kServers[] = {"bf16_plain", "bf16_iso", "int8_plain", "int8_iso"};

double rounded(double value) { return std::round(value * 1e4) / 1e4; }
double over(double part, double whole) { return whole > 0 ? part / whole : 0; }

double ttft(const TpFigures& figures, const std::string& key) {
  const auto found = figures.by_server.find(key);
  return found == figures.by_server.end() ? 0 : median(found->second.ttft_s);
}

constexpr double kLeastSaving = 0.05;  // of plain TTFT, by an ideal schedule

/// What the overlap has gained of what it could gain at most.
double share_of_bound(const TpFigures& figures) {
  const double plain = ttft(figures, "int8_plain");
  return over(plain - ttft(figures, "int8_iso"), plain - figures.iso_bound_s);
}

}  // namespace

std::string tp_table(const TpFigures& figures) {
  std::string out =
      print("setting %s: %s, prompts of %u tokens, two ranks of one core, link %.0f Mbit/s, %u rounds\n%s\n\n", figures.setting.c_str(),
            figures.model.c_str(), figures.prompt_tokens, figures.megabits, figures.rounds, figures.cpu.c_str());
  out += "             TTFT s   computing   reducing   only waiting   steps cut   decode tok/s\n";
  for (const auto& [key, figure] : figures.by_server) {
    const double seconds = median(figure.ttft_s), exposed = median(figure.exposed_s);
    out += print("%-11s %7.3f %9.1f %% %8.1f %% %12.1f %% %11.0f %14.1f\n", key.c_str(), seconds, 100 * over(seconds - exposed, seconds),
                 100 * over(median(figure.wire_s), seconds), 100 * over(exposed, seconds), figure.overlapped_steps,
                 median(figure.decode_tok_s));
  }
  const double plain = ttft(figures, "int8_plain"), iso = ttft(figures, "int8_iso");
  out += print("\nint8 over bf16               %.3f\n", over(plain, ttft(figures, "bf16_plain")));
  out += print("ISO over plain               %.3f with int8, %.3f with bf16\n", over(iso, plain),
               over(ttft(figures, "bf16_iso"), ttft(figures, "bf16_plain")));
  out += print("bound of ISO                 %.3f s, from compute %.3f s and wire %.3f s of the plain run\n", figures.iso_bound_s,
               figures.compute_s, figures.wire_s);
  if (figures.iso_bound_s < (1 - kLeastSaving) * plain)  // else there is nothing to reach but noise
    out += print("share of the bound reached   %.1f %%\n", 100 * share_of_bound(figures));
  out += print("idle share of compute, ISO   %.1f %%\n", 100 * figures.idle_share);
  if (figures.by_server.contains("auto"))
    out += print("auto                         codec %s, %.0f steps in parts, TTFT %.3f of bf16 plain\n", figures.chosen_codec.c_str(),
                 figures.by_server.at("auto").overlapped_steps, over(ttft(figures, "auto"), ttft(figures, "bf16_plain")));
  return out;
}

std::string tp_json(const TpFigures& figures) {
  Json json{{"setting", figures.setting}};
  for (const char* key : kServers) json["ttft_s"][key] = rounded(ttft(figures, key));
  json["iso_bound_s"] = rounded(figures.iso_bound_s);
  for (const char* key : kServers) {
    const auto found = figures.by_server.find(key);
    json["decode_tok_s"][key] = found == figures.by_server.end() ? 0 : rounded(median(found->second.decode_tok_s));
  }
  json["model"] = figures.model;
  json["cpu"] = figures.cpu;
  json["prompt_tokens"] = figures.prompt_tokens;
  json["rounds"] = figures.rounds;
  json["link_mbit_s"] = rounded(figures.megabits);
  json["compute_s"] = rounded(figures.compute_s);
  json["wire_s"] = rounded(figures.wire_s);
  json["share_of_bound"] = rounded(share_of_bound(figures));
  json["idle_share"] = rounded(figures.idle_share);
  for (const auto& [key, figure] : figures.by_server) {
    const double seconds = median(figure.ttft_s);
    json["servers"][key] = {{"ttft_s", figure.ttft_s},
                            {"decode_tok_s", figure.decode_tok_s},
                            {"wire_share", rounded(over(median(figure.wire_s), seconds))},
                            {"exposed_share", rounded(over(median(figure.exposed_s), seconds))},
                            {"overlapped_steps", figure.overlapped_steps}};
  }
  if (!figures.chosen_codec.empty()) json["chosen_codec"] = figures.chosen_codec;
  return json.dump(2) + "\n";
}

}  // namespace troupe::cluster::bench
