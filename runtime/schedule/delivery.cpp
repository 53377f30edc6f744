#include "runtime/schedule/delivery.h"

#include <algorithm>
#include <functional>
#include <optional>

namespace troupe::schedule {
namespace {
constexpr double kLeastDeliveryUs = 1000.0;  // one message, one write
constexpr SequenceNumber kStaggers = 8;      // parts of a window over which the sequences are spread
}  // namespace

void append(TopLogprobs& to, const TopLogprobs& from) {
  to.width = from.width;
  to.chosen.insert(to.chosen.end(), from.chosen.begin(), from.chosen.end());
  to.ids.insert(to.ids.end(), from.ids.begin(), from.ids.end());
  to.logprobs.insert(to.logprobs.end(), from.logprobs.begin(), from.logprobs.end());
}

void Delivery::hold(Sequence& sequence, TokenId token, const TopLogprobs& logprobs) {
  sequence.outbox.tokens.push_back(token);
  append(sequence.outbox.logprobs, logprobs);
}

void Delivery::add(Sequence& sequence, TokenId token, const TopLogprobs& logprobs, TimePoint now, std::vector<TokensGenerated>& out) {
  hold(sequence, token, logprobs);
  if (!sequence.first_sent) {
    send(sequence, now, out);
    sequence.due = now + window_ * (sequence.number % kStaggers + 1) / kStaggers;
  } else if (!windowed_ || sequence.due <= now) {
    send(sequence, now, out);
  } else {
    waiting_.insert({sequence.due, sequence.number});
  }
}

void Delivery::finish(Sequence& sequence, TimePoint now, std::vector<TokensGenerated>& out) { send(sequence, now, out); }

void Delivery::send(Sequence& sequence, TimePoint now, std::vector<TokensGenerated>& out) {
  forget(sequence);
  Admission& admission = *sequence.admission;
  TokensGenerated& box = sequence.outbox;
  box.request = admission.request;
  box.attempt = admission.attempt;
  box.choice = sequence.choice;
  if (admission.report && !admission.report_sent) {
    box.has_cache_report = admission.report_sent = true;
    box.cache = *admission.report;
  }
  const std::uint32_t next = box.first + static_cast<std::uint32_t>(box.tokens.size());
  out.push_back(std::move(box));
  box = TokensGenerated{};
  box.first = next;
  sequence.first_sent = true;
  sequence.due = now + window_;
}

std::optional<TimePoint> Delivery::next_due() const {
  if (waiting_.empty()) return std::nullopt;
  return waiting_.begin()->first;
}

void RecentTimes::note(TimePoint::duration time) {
  us_[at_++ % us_.size()] = std::chrono::duration<float, std::micro>(time).count();
  if (at_ % 16 != 0) return;
  auto sorted = us_;
  std::nth_element(sorted.begin(), sorted.begin() + 1, sorted.end(), std::greater<>());
  p99_us_ = sorted[1];
}

double Delivery::cost_us() const {
  const double on_top = std::max(kLeastDeliveryUs, 2 * waits_.p99_us());
  if (!windowed_) return on_top;
  return std::chrono::duration<double, std::micro>(window_).count() + std::max(lateness_.p99_us(), on_top);
}

}  // namespace troupe::schedule
