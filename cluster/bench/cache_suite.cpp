// See cache_suite.h.
#include "cluster/bench/cache_suite.h"

#include "cluster/bench/load_summary.h"
#include "messages/error_reasons.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

namespace troupe::cluster::bench {
namespace {

constexpr std::uint32_t kRoom = 256;                                   // tokens of a chat beyond its first turn, at most
constexpr double kDeviceChats = 2.5, kHostChats = 8, kDiskChats = 16;  // what each tier holds in turn
constexpr double kFarBelow = 4;                                        // times slower than where loading costs what computing does
constexpr double kMegabyte = 1e6;
constexpr std::string_view kCold = "cold", kDevice = "device", kHost = "host", kDisk = "disk", kSlow = "slow disk";
constexpr const char *kPlain = "device only", *kTiered = "with tiers";

std::string clients_text(std::uint32_t clients) { return std::to_string(clients) + (clients == 1 ? " client" : " clients"); }

/// The run in the middle by throughput.
const HttpFigure& middle(std::vector<HttpFigure>& runs) {
  std::sort(runs.begin(), runs.end(), [](const auto& a, const auto& b) { return a.output_tokens_per_second < b.output_tokens_per_second; });
  return runs[runs.size() / 2];
}

}  // namespace

CacheSuite::CacheSuite(const BenchOptions& options, double position_bytes, std::uint32_t context, ProgressBar& bar,
                       const std::atomic<bool>& stop, Report& report)
    : options_(options),
      position_bytes_(position_bytes),
      context_(context),
      bar_(bar),
      stop_(stop),
      report_(report),
      servers_(options, stop) {}

std::uint64_t CacheSuite::bytes_of(double tokens) const { return static_cast<std::uint64_t>(std::ceil(tokens * position_bytes_)); }

TierBytes CacheSuite::tiers_of_options() const {
  const Options& options = options_.options;
  return {options.kv_memory, options.host_cache, options.disk_cache};
}

void CacheSuite::wait(const CacheServer& server) {
  if (!servers_.foreign() && !server.wait_until_written(stop_) && !stop_.load())
    report_.notes.emplace_back("cache: blocks were still on their way to the host or the disk when the next measurement began");
}

/// What does not fit the model's context, if anything.
Status CacheSuite::check_sizes() const {
  const CacheSizes& sizes = options_.cache_sizes;
  const auto fits = [&](const char* option, std::uint64_t tokens) -> Status {
    if (context_ == 0 || tokens <= context_) return ok_status();
    return make_error(ErrorClass::kInvalidRequest, ErrorReason::kBadConfig,
                      std::string("--") + option + ": the model's context has " + std::to_string(context_) + " tokens, and " +
                          std::to_string(tokens) + " are needed",
                      option);
  };
  for (const std::string& scenario : sizes.scenarios) {
    Status status = ok_status();
    if (scenario == "turn") status = fits("chat-tokens", std::uint64_t{sizes.chat_tokens} + kRoom);
    if (scenario == "mcts")
      status = fits("tree-root-tokens", sizes.tree_root_tokens + std::uint64_t{sizes.tree.depth} * sizes.tree.step_tokens + kRoom);
    if (scenario == "trace") status = fits("answer-tokens", std::uint64_t{options_.sizes.answer_tokens} + kBlockTokens);
    if (!status) return status;
  }
  return ok_status();
}

Status CacheSuite::measure() {
  if (auto status = check_sizes(); !status) return status;
  if (auto status = servers_.prepare(); !status) return status;
  for (const std::string& scenario : options_.cache_sizes.scenarios) {
    if (stop_.load()) return ok_status();
    const bool own_servers = scenario == "turn" || scenario == "none";
    if (own_servers && !servers_.foreign()) loaded_.reset();  // it would share the cores
    const Status status = scenario == "turn" ? turn() : scenario == "none" ? none() : load(scenario);
    if (!status) return status;
  }
  return ok_status();
}

Status CacheSuite::turn() {
  Calls calls;
  Status status = servers_.foreign() ? turn_elsewhere(calls) : turn_here(calls);
  report_turns(calls);
  return status;
}

/// A server elsewhere is not restarted, and its tiers have sizes that nobody knows here.
Status CacheSuite::turn_elsewhere(Calls& calls) {
  if (auto status = start_loaded(); !status) return status;
  TwoTurnChats chats(loaded_->http, options_.cache_sizes.chat_tokens);
  for (std::uint32_t round = 0; round < options_.repetitions && !stop_.load(); ++round) {
    show(static_cast<double>(round) / options_.repetitions, "second turns");
    CallResult cold = chats.second_turn(chats.unknown());
    const auto chat = chats.begun();
    if (!chat) return chat.error();
    CallResult warm = chats.second_turn(*chat);
    if (stop_.load()) break;
    calls[kCold].push_back(std::move(cold));
    calls[kDevice].push_back(std::move(warm));
  }
  return ok_status();
}

Status CacheSuite::turn_here(Calls& calls) {
  const double chat = options_.cache_sizes.chat_tokens + kRoom;
  TierBytes tiers{bytes_of(kDeviceChats * chat), bytes_of(kHostChats * chat), bytes_of(kDiskChats * chat)};
  show(0, "second turns: a first server");
  auto server = servers_.start(tiers);
  if (!server) return server.error();
  TwoTurnChats chats((*server)->http, options_.cache_sizes.chat_tokens);
  chats.push_out();  // what a server does once
  const CallResult cold = chats.second_turn(chats.unknown());
  if (!cold.good()) return make_error(ErrorClass::kUnavailable, ErrorReason::kUnclassified, "a second turn failed: " + cold.error);
  const double break_even = position_bytes_ * static_cast<double>(cold.prompt_tokens) / cold.first_token_seconds() / kMegabyte;
  tiers.slow_disk_mb_s = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(break_even / kFarBelow));
  for (std::uint32_t round = 0; round < options_.repetitions && !stop_.load(); ++round) {
    show(static_cast<double>(round) / options_.repetitions, "second turns");
    if (auto status = turn_round(*server, tiers, calls); !status) return status;
  }
  return ok_status();
}

/// Two chats on a server that ends; one goes on where the disk is slow, one where it is not, and there also what needs no restart.
Status CacheSuite::turn_round(std::unique_ptr<CacheServer>& server, const TierBytes& tiers, Calls& calls) {
  const std::uint32_t tokens = options_.cache_sizes.chat_tokens;
  std::map<std::string_view, CallResult> round;  // kept only as a whole
  TwoTurnChats first(server->http, tokens);
  const auto for_slow = first.begun(), for_disk = first.begun();
  if (!for_slow) return for_slow.error();
  if (!for_disk) return for_disk.error();
  wait(*server);
  for (const std::string_view where : {kSlow, kDisk}) {
    server.reset();
    servers_.leave_to_the_disk();
    TierBytes now = tiers;
    if (where == kDisk) now.slow_disk_mb_s = 0;
    auto started = servers_.start(now);
    if (!started) return started.error();
    server = std::move(*started);
    TwoTurnChats chats(server->http, tokens);
    chats.push_out();  // what a server does once
    round[where] = chats.second_turn(where == kSlow ? *for_slow : *for_disk);
  }
  TwoTurnChats chats(server->http, tokens);
  round[kCold] = chats.second_turn(chats.unknown());
  const auto for_device = chats.begun();
  if (!for_device) return for_device.error();
  round[kDevice] = chats.second_turn(*for_device);
  const auto for_host = chats.begun();
  if (!for_host) return for_host.error();
  wait(*server);
  const double pushes = static_cast<double>(tiers.device) / (position_bytes_ * tokens);
  for (int i = 0; i < pushes; ++i) chats.push_out();
  wait(*server);
  round[kHost] = chats.second_turn(*for_host);
  if (stop_.load()) return ok_status();
  for (auto& [where, result] : round) calls[where].push_back(std::move(result));
  return ok_status();
}

void CacheSuite::report_turns(const Calls& calls) {
  double cold = 0;
  for (const std::string_view where : {kCold, kDevice, kHost, kDisk, kSlow}) {
    const auto found = calls.find(where);
    if (found == calls.end()) continue;
    double seconds = 0;
    for (const CallResult& call : found->second) seconds += call.end - call.start;
    CacheFigure figure;
    figure.where = where;
    figure.load = load_summary(found->second, seconds);
    figure.load.scenario = "turn";
    const double median = figure.load.first_token.p50;
    if (where == kCold) cold = median;
    if (where != kCold && cold > 0) {
      figure.against = kCold;
      figure.ratio = median / cold;
    }
    const TierTokens& tiers = figure.load.tiers;
    const double wanted = where == kDevice ? figure.load.cached_tokens : where == kHost ? tiers.host : tiers.disk;
    if ((where == kDevice || where == kHost || where == kDisk) && wanted < figure.load.prompt_tokens / 2)
      report_.notes.push_back("cache, turn: most of the prompts of '" + figure.where + "' did not come from there");
    report_.cache.push_back(std::move(figure));
  }
}

Status CacheSuite::start_loaded() {
  if (loaded_) return ok_status();
  auto server = servers_.start(tiers_of_options());
  if (!server) return server.error();
  loaded_ = std::move(*server);
  return ok_status();
}

Status CacheSuite::load(const std::string& scenario) {
  if (auto status = start_loaded(); !status) return status;
  const CacheSizes& sizes = options_.cache_sizes;
  const auto keep = [&](const HttpFigure& figure, std::string where) {
    if (stop_.load()) return;  // this load was cut short and says nothing
    report_.cache.push_back({std::move(where), figure, "", 0});
    wait(*loaded_);
  };
  if (scenario == "mcts") {
    show(0, scenario);
    keep(search_tree(loaded_->http, sizes.tree, sizes.tree_root_tokens, options_.seed, stop_),
         std::to_string(sizes.tree.branches) + " branches");
    return ok_status();
  }
  std::size_t most_tokens = sizes.trace_tokens;
  if (context_ > 0) most_tokens = std::min<std::size_t>(most_tokens, context_ - options_.sizes.answer_tokens);
  for (const std::uint32_t clients : options_.clients) {
    if (stop_.load()) return ok_status();
    show(0, scenario + ", " + clients_text(clients));
    // Other clients, other tokens: the last replay's blocks must be of no use.
    keep(scenario == "trace"
             ? replay_trace(loaded_->http, sizes.trace, clients, most_tokens, options_.sizes.answer_tokens, options_.seed + clients)
             : loaded_->http.run(scenario, clients),
         clients_text(clients));
  }
  return ok_status();
}

Status CacheSuite::none() {
  if (servers_.foreign()) {
    report_.notes.emplace_back("cache: 'none' compares servers with and without tiers, and is left out with --url");
    return ok_status();
  }
  TierBytes plain = tiers_of_options(), tiered = plain;
  plain.host = plain.disk = 0;
  if (tiered.host == 0 && tiered.disk == 0) {
    const double tokens = static_cast<double>(options_.sizes.requests) * (options_.sizes.prompt_tokens + options_.sizes.answer_tokens);
    tiered.host = bytes_of(tokens);
    tiered.disk = bytes_of(4 * tokens);
  }
  // Which was started first decides who has the better pages of memory: half of the rounds each way.
  PairedRuns runs;
  for (const bool tiers_first : {false, true})
    if (auto status = pair_up(plain, tiered, tiers_first, runs); !status) return status;
  if (runs.plain.empty()) return ok_status();
  CacheFigure base{kPlain, middle(runs.plain), "", 0}, compared{kTiered, middle(runs.tiered), kPlain, median(std::move(runs.ratios))};
  base.load.scenario = compared.load.scenario = "none";
  report_.cache.push_back(std::move(base));
  report_.cache.push_back(std::move(compared));
  return ok_status();
}

Status CacheSuite::pair_up(const TierBytes& plain, const TierBytes& tiered, bool tiers_first, PairedRuns& runs) {
  show(0, "two servers");
  std::unique_ptr<CacheServer> servers[2];  // [1] has the tiers
  for (const bool second : {false, true}) {
    const bool tiers = second != tiers_first;
    auto server = servers_.start(tiers ? tiered : plain, second);
    if (!server) return server.error();
    servers[tiers] = std::move(*server);
  }
  const std::uint32_t rounds = (options_.repetitions + 1) / 2;
  for (std::uint32_t round = 0; round <= rounds; ++round) {
    show(static_cast<double>(round) / (rounds + 1), "prompts that share nothing");
    HttpFigure figures[2];
    for (const bool second : {false, true}) {
      const bool tiers = second != (round % 2 == 1);  // A B, B A, ...
      figures[tiers] = servers[tiers]->http.run("unique", options_.clients.front());
      if (stop_.load()) return ok_status();
      if (tiers) wait(*servers[tiers]);
    }
    if (round == 0) continue;  // memory is touched for the first time
    if (figures[0].output_tokens_per_second > 0)
      runs.ratios.push_back(figures[1].output_tokens_per_second / figures[0].output_tokens_per_second);
    runs.plain.push_back(std::move(figures[0]));
    runs.tiered.push_back(std::move(figures[1]));
  }
  return ok_status();
}

}  // namespace troupe::cluster::bench
