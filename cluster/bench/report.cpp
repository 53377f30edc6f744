// What the figures say together. See report.h.
#include "cluster/bench/report.h"

namespace troupe::cluster::bench {

std::string Setting::text() const {
  if (!url.empty()) return url;
  return weights + " weights, " + activations + " activations, " + kv + " KV, " + isa + ", " + std::to_string(threads) +
         (threads == 1 ? " thread" : " threads");
}

double StepFigure::kernel_us() const {
  double sum = 0;
  for (const StepPart& part : parts)
    if (part.kind == StepPart::Kind::kProduct || part.kind == StepPart::Kind::kOtherKernel) sum += part.us;
  return sum;
}

double four_rows_cost(const Report& report, std::uint32_t context) {
  double one = 0, four = 0;
  for (const DecodeFigure& figure : report.decode) {
    if (figure.context != context) continue;
    if (figure.batch == 1) one = figure.step_ms;
    if (figure.batch == 4) four = figure.step_ms;
  }
  return one > 0 ? four / one : 0;
}

}  // namespace troupe::cluster::bench
