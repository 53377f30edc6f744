#include "tests/scenarios/scenario.h"

#include "messages/error_reasons.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <sstream>
#include <stdexcept>

namespace troupe::schedule::test {
namespace {

[[noreturn]] void fail(const std::string& what) { throw std::runtime_error(what); }

void require_equal(const std::string& what, const std::string& expected, const std::string& found) {
  if (expected != found) fail(what + "\n  expected: " + expected + "\n  found:    " + found);
}

/// "name=value" words from `from` on.
std::map<std::string, std::string> settings(const std::vector<std::string>& words, std::size_t from) {
  std::map<std::string, std::string> found;
  for (std::size_t i = from; i < words.size(); ++i) {
    const auto equals = words[i].find('=');
    if (equals == std::string::npos) fail("name=value wanted, not " + words[i]);
    found[words[i].substr(0, equals)] = words[i].substr(equals + 1);
  }
  return found;
}

std::string finish_name(Finish finish) {
  switch (finish) {
    case Finish::kRunning: return "running";
    case Finish::kStop: return "stop";
    case Finish::kLength: return "length";
    case Finish::kFailed: return "failed";
  }
  return "?";
}

}  // namespace

void Scenario::run(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in) fail("cannot read " + file.string());
  Scenario scenario;
  scenario.options_.eos = {kEos};
  std::string text;
  std::size_t number = 0;
  try {
    while (std::getline(in, text)) {
      ++number;
      std::istringstream stream(text.substr(0, text.find('#')));
      Words words;
      for (std::string word; stream >> word;) words.push_back(word);
      if (!words.empty()) scenario.line(words);
    }
    ReplicaHarness& harness = scenario.harness();
    harness.settle();
    if (!harness.scheduler().idle()) return;
    for (const auto& [request, outcome] : harness.outcomes()) harness.check_outcome(request);
    harness.check_conservation();
  } catch (const std::exception& error) {
    fail(file.filename().string() + ":" + std::to_string(number) + ": " + text + "\n  " + error.what());
  }
}

ReplicaHarness& Scenario::harness() {
  if (!harness_) harness_ = std::make_unique<ReplicaHarness>(options_);
  return *harness_;
}

std::uint64_t Scenario::number_of(const std::string& name) {
  const auto at = std::find(names_.begin(), names_.end(), name);
  if (at != names_.end()) return static_cast<std::uint64_t>(at - names_.begin()) + 1;
  names_.push_back(name);
  return names_.size();
}

RequestOutcome& Scenario::outcome(const std::string& name) { return harness().outcome(number_of(name)); }

void Scenario::line(const Words& words) {
  const std::string& verb = words[0];
  if (verb == "options") return options(words);
  if (verb == "submit") {
    submit(words);
  } else if (verb == "group") {
    auto values = settings(words, 1);
    slots_.clear();
    lengths_.clear();
    if (values.contains("stages")) harness().stages = static_cast<std::uint32_t>(std::stoul(values.at("stages")));
    if (values.contains("tensor_ranks")) harness().tensor_ranks = static_cast<std::uint32_t>(std::stoul(values.at("tensor_ranks")));
    if (values.contains("wire")) {  // us a row, beside 20 us of compute
      harness().shard().wire_row_us = static_cast<std::uint32_t>(std::stoul(values.at("wire")));
      harness().speed = {20, static_cast<double>(harness().shard().wire_row_us), 5, 12, 2048};
    }
    harness().ready(static_cast<std::uint32_t>(std::stoul(values.at("blocks"))),
                    static_cast<std::uint32_t>(std::stoul(values.at("context"))));
  } else if (verb == "step") {
    for (int i = words.size() > 1 ? std::stoi(words[1]) : 1; i > 0; --i) {
      harness().settle();
      if (!harness().shard_step()) fail("no plan to run");
    }
  } else if (verb == "run") {
    harness().run_to_idle();
  } else if (verb == "abort") {
    std::vector<std::uint16_t> choices;
    for (std::size_t i = 2; i < words.size(); ++i) choices.push_back(static_cast<std::uint16_t>(std::stoul(words[i])));
    harness().abort(number_of(words.at(1)), choices);
  } else if (verb == "time") {
    harness().advance_time(std::chrono::milliseconds(std::stoul(words.at(1))));
  } else if (verb == "lose") {
    harness().lose(words.size() > 1 && words[1] == "final");
  } else if (verb == "fail_draw") {
    harness().shard().fail_next_draw();
  } else if (verb == "drain") {
    harness().drain();
  } else if (verb == "expect") {
    expect(words);
  } else {
    fail("unknown verb " + verb);
  }
  if (harness_) harness_->settle();
}

void Scenario::options(const Words& words) {
  if (harness_) fail("options come first");
  for (const auto& [name, value] : settings(words, 1)) {
    const auto number = name == "policy" || name == "overlap" ? 0U : static_cast<std::uint32_t>(std::stoul(value));
    if (name == "policy")
      options_.policy = value;
    else if (name == "overlap")
      options_.overlap = value;
    else if (name == "max_sequences")
      options_.max_sequences = number;
    else if (name == "token_budget")
      options_.token_budget = number;
    else if (name == "min_chunk")
      options_.min_chunk = number;
    else if (name == "stall_budget_ms")
      options_.stall_budget_ms = number;
    else if (name == "delivery_window_ms")
      options_.delivery_window_ms = number;
    else if (name == "window_from")
      options_.window_from = number;
    else if (name == "max_queued_requests")
      options_.max_queued_requests = number;
    else if (name == "max_queued_tokens")
      options_.max_queued_tokens = number;
    else if (name == "plans_in_flight")
      options_.plans_in_flight = number;
    else
      fail("unknown option " + name);
  }
}

void Scenario::submit(const Words& words) {
  const std::uint64_t number = number_of(words.at(1));
  auto values = settings(words, 2);
  const auto take = [&values](const std::string& name, std::uint32_t otherwise) {
    const auto at = values.find(name);
    const auto value = at == values.end() ? otherwise : static_cast<std::uint32_t>(std::stoul(at->second));
    values.erase(name);
    return value;
  };
  std::vector<TokenId> prompt;
  if (values.contains("follow")) {
    const RequestOutcome& earlier = outcome(values.at("follow"));
    prompt = earlier.request.tokens;
    const auto& answer = earlier.choices.begin()->second.tokens;
    prompt.insert(prompt.end(), answer.begin(), answer.end());
    values.erase("follow");
  }
  const std::uint64_t stream = values.contains("like") ? number_of(values.at("like")) : number;
  values.erase("like");
  const auto own = make_prompt(stream, take("prompt", 0));
  prompt.insert(prompt.end(), own.begin(), own.end());
  AdmitSequence request = make_request(number, std::move(prompt), take("max", 1));
  request.choices = static_cast<std::uint16_t>(take("n", 1));
  request.priority = static_cast<std::int32_t>(take("priority", 0));
  request.owner = Hash128{take("owner", 0), 0};
  request.deadline_ms = take("deadline", 0);
  request.score_from = take("score", kNone32);
  request.ignore_eos = take("ignore_eos", 1) != 0;
  if (values.contains("logprobs")) request.sampling.top_logprobs = static_cast<std::uint8_t>(take("logprobs", 0));
  if (values.contains("stop")) request.stop_tokens.push_back(take("stop", 0));
  if (!values.empty()) fail("unknown word " + values.begin()->first);
  harness().submit(std::move(request));
}

std::string Scenario::name_of(SequenceSlot slot) const {
  const auto at = slots_.find(slot.value);
  return at == slots_.end() ? "?" : at->second;
}

/// The plan's parts, in its order. Follows slots from plan to plan.
std::string Scenario::describe(const plan::ForwardPlan& plan) {
  std::vector<std::string> parts;
  for (SequenceSlot slot : plan.dropped) {
    parts.push_back("drop " + name_of(slot));
    slots_.erase(slot.value);
  }
  for (const plan::AddedSequence& added : plan.added) {
    const std::string suffix = added.choice == 0 ? "" : "." + std::to_string(added.choice);
    slots_[added.sequence.value] = names_.at(added.sampling.seed - 1) + suffix;
    lengths_[added.sequence.value] = added.length;
    parts.push_back("add " + name_of(added.sequence) + " " + std::to_string(added.length));
  }
  for (std::size_t i = 0; i < plan.append_slots.size();) {
    std::size_t end = i;
    while (end < plan.append_slots.size() && plan.append_slots[end] == plan.append_slots[i]) ++end;
    parts.push_back("append " + name_of(plan.append_slots[i]) + " " + std::to_string(end - i));
    i = end;
  }
  for (const plan::BlockMove& move : plan.copies) parts.push_back("copy " + std::to_string(move.tokens));
  std::size_t row = 0;
  for (const plan::RowRun& run : plan.runs) {
    std::uint32_t& length = lengths_[run.sequence.value];
    const bool decode = run.rows == 1 && plan.tokens[row] == plan::kLastToken;
    parts.push_back(decode ? "decode " + name_of(run.sequence)
                           : "prefill " + name_of(run.sequence) + " " + std::to_string(length) + ":" + std::to_string(length + run.rows));
    length += run.rows;
    row += run.rows;
  }
  std::map<std::string, std::uint32_t> scores;
  for (const plan::Sample& sample : plan.samples) {
    if (sample.token == plan::kDraw)
      parts.push_back("draw " + name_of(sample.sequence));
    else
      ++scores[name_of(sample.sequence)];
  }
  for (const auto& [name, count] : scores) parts.push_back("score " + name + " " + std::to_string(count));
  for (const std::uint32_t cut : plan.cuts) parts.push_back("cut " + std::to_string(cut));
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : " | ") + part;
  return text;
}

void Scenario::expect(const Words& words) {
  const std::string& what = words.at(1);
  if (what == "plan") return expect_plan(words);
  if (what == "tokens") return expect_tokens(words);
  if (what == "stats") return expect_stats(words);
  if (what == "no") {
    if (plans_expected_ < harness().plans().size()) fail("found: " + describe(harness().plans()[plans_expected_]));
  } else if (what == "idle") {
    if (!harness().scheduler().idle()) fail("not idle");
  } else if (what == "admitted") {
    if (!outcome(words.at(2)).admitted) fail("not admitted");
  } else if (what == "refused") {
    const auto& refused = outcome(words.at(2)).refused;
    require_equal("refusal", words.at(3), refused ? std::string(reason_name(refused->reason)) : "none");
  } else if (what == "report") {
    const auto& report = outcome(words.at(2)).report;
    if (!report) fail("no report yet");
    require_equal("report", words.at(3) + " " + words.at(4) + " " + words.at(5),
                  "device=" + std::to_string(report->tokens.device) + " computed=" + std::to_string(report->tokens.computed) +
                      " miss=" + std::to_string(static_cast<int>(report->miss)));
  } else if (what == "scores") {
    const RequestOutcome& scored = outcome(words.at(2));
    require_equal("scores", words.at(3) + " " + words.at(4),
                  std::to_string(scored.scored_from) + " " + std::to_string(scored.scores.chosen.size()));
  } else if (what == "messages") {
    std::string expected, found;
    for (std::size_t i = 3; i < words.size(); ++i) expected += words[i] + " ";
    for (std::size_t size : outcome(words.at(2)).choices[0].message_sizes) found += std::to_string(size) + " ";
    require_equal("messages", expected, found);
  } else {
    fail("unknown expectation " + what);
  }
}

void Scenario::expect_plan(const Words& words) {
  std::string expected;
  for (std::size_t i = 2; i < words.size(); ++i) expected += (i > 2 ? " " : "") + words[i];
  if (plans_expected_ >= harness().plans().size()) fail("no further plan");
  require_equal("plan", expected, describe(harness().plans()[plans_expected_++]));
}

/// expect tokens A COUNT [FINISH [REASON]]; "A.1" is a further choice.
void Scenario::expect_tokens(const Words& words) {
  const std::string& who = words.at(2);
  const auto dot = who.find('.');
  const auto choice = static_cast<std::uint16_t>(dot == std::string::npos ? 0 : std::stoul(who.substr(dot + 1)));
  const ChoiceOutcome& found = outcome(who.substr(0, dot)).choices[choice];
  std::string expected = words.at(3), actual = std::to_string(found.tokens.size());
  if (words.size() > 4) {
    expected += " " + words[4];
    actual += " " + finish_name(found.finish);
  }
  if (words.size() > 5) {
    expected += " " + words[5];
    actual += " " + std::string(reason_name(found.error.reason));
  }
  require_equal("tokens", expected, actual);
}

void Scenario::expect_stats(const Words& words) {
  const SchedulerStats stats = harness().scheduler().stats();
  const std::map<std::string, std::uint64_t> found{{"steps", stats.steps},
                                                   {"prompt_tokens", stats.prompt_tokens},
                                                   {"generated_tokens", stats.generated_tokens},
                                                   {"cached_tokens", stats.cached_tokens},
                                                   {"preemptions", stats.preemptions},
                                                   {"stall_overruns", stats.stall_overruns},
                                                   {"wasted_rows", stats.wasted_rows},
                                                   {"overlapped_steps", stats.overlapped_steps},
                                                   {"running", stats.running},
                                                   {"waiting", stats.waiting}};
  for (const auto& [name, value] : settings(words, 2)) require_equal(name, value, std::to_string(found.at(name)));
}

}  // namespace troupe::schedule::test
