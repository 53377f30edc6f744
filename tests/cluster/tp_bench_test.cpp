// Parts of `troupe bench tp` that need no cluster: the bound, the link's commands, random models, programs.
#include "cluster/bench/overlap_bound.h"
#include "cluster/bench/overlap_picture.h"
#include "cluster/bench/program.h"
#include "cluster/bench/random_model.h"
#include "cluster/bench/shaped_link.h"
#include "cluster/bench/tp_server.h"
#include "cluster/bench/tp_suite.h"
#include "cluster/bench/wire_trace.h"
#include "runtime/model/model_table.h"
#include "runtime/text/tokenizer.h"
#include "runtime/weights/gguf_file.h"
#include "tests/support/scratch_folder.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

using namespace troupe;
using namespace troupe::cluster::bench;

namespace {

/// The same schedule as a graph: tasks with durations and what each waits for; time of its longest path, by relaxing until nothing moves.
double longest_path(const std::vector<SegmentTimes>& plan, const std::vector<double>& shares) {
  struct Task {
    double seconds;
    std::vector<std::size_t> after;
  };
  std::vector<Task> tasks;
  std::vector<std::size_t> core, wire;                        // in the order of each resource
  std::vector<std::vector<std::size_t>> part(shares.size());  // in the order of each part
  for (const SegmentTimes& segment : plan)
    for (std::size_t p = 0; p < shares.size(); ++p) {
      for (const bool on_wire : {false, true}) {
        if (on_wire && segment.wire == 0) continue;
        Task task{shares[p] * (on_wire ? segment.wire : segment.compute), {}};
        auto& resource = on_wire ? wire : core;
        if (!resource.empty()) task.after.push_back(resource.back());
        if (!part[p].empty()) task.after.push_back(part[p].back());
        resource.push_back(tasks.size());
        part[p].push_back(tasks.size());
        tasks.push_back(task);
      }
    }
  std::vector<double> end(tasks.size(), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t i = tasks.size(); i-- > 0;) {  // against the order, so that it takes rounds
      double start = 0;
      for (const std::size_t before : tasks[i].after) start = std::max(start, end[before]);
      moved |= start + tasks[i].seconds > end[i] + 1e-12;
      end[i] = std::max(end[i], start + tasks[i].seconds);
    }
  }
  return end.empty() ? 0 : *std::max_element(end.begin(), end.end());
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

TEST_CASE("overlap bound: the list schedule is the longest path of its graph") {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> seconds(0, 1);
  for (int round = 0; round < 200; ++round) {
    std::vector<SegmentTimes> plan(1 + random() % 8);
    for (SegmentTimes& segment : plan) segment = {seconds(random), random() % 4 == 0 ? 0 : seconds(random)};
    std::vector<double> shares(1 + random() % 4);
    for (double& share : shares) share = seconds(random);
    CHECK(overlapped_time(plan, shares) == Approx(longest_path(plan, shares)));
    double best = plain_time(plan), best_of_two = best;
    for (int step = 0; step <= 64; ++step) {
      const double first = step / 64.0;
      best_of_two = std::min(best_of_two, longest_path(plan, {first, 1 - first}));
      best = std::min(best, longest_path(plan, {first / 2, first / 2, 1 - first}));
    }
    CHECK(overlap_bound(plan, 2) <= 1.02 * best_of_two);
    CHECK(overlap_bound(plan, 2) >= 0.98 * best_of_two);
    CHECK(overlap_bound(plan, 3) <= overlap_bound(plan, 2));
    CHECK(overlap_bound(plan, 4) <= 1.05 * best);
    CHECK(overlap_bound(plan, 2) <= plain_time(plan));
  }
}

TEST_CASE("overlap bound: equal compute and wire leave only what fills and drains") {
  const std::vector<SegmentTimes> plan(10, SegmentTimes{1, 1});
  CHECK(plain_time(plan) == Approx(20));
  const std::vector<double> halves(2, 0.5), quarters(4, 0.25);
  CHECK(overlapped_time(plan, halves) == Approx(10.5));  // the first half compute before, or the last half reduce behind
  CHECK(overlapped_time(plan, quarters) == Approx(10.25));
  const std::vector<SegmentTimes> no_wire(10, SegmentTimes{1, 0});
  CHECK(overlap_bound(no_wire, 4) == Approx(10));
  const std::vector<SegmentTimes> wire_bound(10, SegmentTimes{0.5, 1});
  CHECK(overlapped_time(wire_bound, halves) == Approx(10.25));
  CHECK(overlap_bound({}, 4) == 0);
}

TEST_CASE("shaped link: commands are the same words at both ends, and name nothing outside its prefix") {
  const auto commands = link_commands();
  for (const std::size_t end : {0, 1}) {
    const std::string name = ShapedLink::namespace_of(end);
    CHECK(std::count(commands.begin(), commands.end(), Arguments{"ip", "netns", "add", name}) == 1);
  }
  for (const Arguments& command : commands)
    for (std::size_t i = 1; i < command.size(); ++i)
      if (command[i - 1] == "dev" || command[i - 1] == "name") CHECK(command[i].size() <= 15);  // the kernel's limit
  const auto shaped = shape_commands(300.5);
  REQUIRE(shaped.size() == 2);
  CHECK(command_line(shaped[0]) == "tc -n troupe-bench-0 qdisc replace dev data root tbf rate 300500kbit burst 72000 latency 50ms");
  CHECK(command_line(shape_commands(10'000)[1]) ==
        "tc -n troupe-bench-1 qdisc replace dev data root tbf rate 10000000kbit burst 250000 latency 50ms");
}

TEST_CASE("program: what fails says why") {
  CHECK(run_program({"true"}).ok());
  CHECK(run_program({"sh", "-c", "echo no such link >&2; echo second >&2; exit 3"}).error().client_text ==
        "'sh -c echo no such link >&2; echo second >&2; exit 3' failed: no such link;second");
  CHECK(run_program({"no-such-program-here"}).error().client_text == "'no-such-program-here' failed: there is no such program");
}

TEST_CASE("program: lines of one that goes on, and its end") {
  const std::atomic<bool> go_on{false}, stop{true};
  const auto log = test::scratch_folder() / "program.log";
  auto program = RunningProgram::start({"sh", "-c", "echo one; printf two; echo; exec sleep 100"}, log);
  REQUIRE(program.ok());
  CHECK(*program->next_line(std::chrono::seconds(20), go_on) == "one");
  CHECK(*program->next_line(std::chrono::seconds(20), go_on) == "two");
  CHECK(program->next_line(std::chrono::seconds(0), go_on).error().client_text.find("no line for 0 s") != std::string::npos);
  CHECK(program->next_line(std::chrono::seconds(20), stop).error().client_text.find("interrupted") != std::string::npos);
  program->stop(std::chrono::seconds(20));  // SIGTERM is enough
  auto short_one = RunningProgram::start({"sh", "-c", "echo first >&2; echo no such model >&2"}, log);
  REQUIRE(short_one.ok());
  CHECK(short_one->next_line(std::chrono::seconds(20), go_on).error().client_text.find("it has ended: first;no such model") !=
        std::string::npos);
  auto stubborn = RunningProgram::start({"sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.05; done"}, log);
  REQUIRE(stubborn.ok());
  CHECK(*stubborn->next_line(std::chrono::seconds(20), go_on) == "up");
  stubborn->stop(std::chrono::seconds(0));
}

TEST_CASE("random model: a model file that can be loaded, the same bytes again for the same seed") {
  const auto path = test::scratch_folder() / "random.gguf", again = test::scratch_folder() / "again.gguf";
  const ModelShape shape{.layers = 2, .hidden = 96, .ffn = 160, .q_heads = 3, .kv_heads = 1, .head_dim = 32, .context = 256};
  REQUIRE(write_random_model(shape, 5, path).ok());
  REQUIRE(write_random_model(shape, 5, again).ok());
  CHECK(read_file(path) == read_file(again));
  auto file = weights::GgufFile::open(path);
  REQUIRE(file.ok());
  auto config = (*model::find_architecture(**file))->read_config(**file);
  REQUIRE(config.ok());
  CHECK(config->layers == shape.layers);
  auto vocabulary = weights::read_vocabulary(**file);
  REQUIRE(vocabulary.ok());
  CHECK(vocabulary->tokens[kFirstPlainToken + 1] == "!");
  CHECK(vocabulary->tokens[kFirstPlainToken + kPlainTokens - 1] == "~");
  CHECK(text::Tokenizer::make(std::move(*vocabulary)).ok());
  CHECK(write_random_model(shape, 5, "/no/such/folder/random.gguf").error().client_text == "cannot write /no/such/folder/random.gguf");
}

namespace {

TraceSpan span(std::string name, std::uint32_t rank, bool on_wire, double begin, double end) {
  return {std::move(name), rank, on_wire, begin, end};
}

/// A step of one layer on two ranks; rank 1 is later by 1 with its first addend.
std::vector<TraceSpan> plain_step() {
  return {span("attention 0", 0, false, 10, 12), span("mlp 0", 0, false, 16, 19),      span("attention 0", 1, false, 10, 13),
          span("mlp 0", 1, false, 16, 19),       span("attention 0", 0, true, 12, 16), span("attention 0", 1, true, 13, 16),
          span("mlp 0", 0, true, 19, 21),        span("mlp 0", 1, true, 19, 21)};
}

}  // namespace

TEST_CASE("wire trace: a reduce begins when the last rank offers its addend; the rest is compute") {
  const auto segments = segments_of(plain_step());
  REQUIRE(segments.size() == 2);
  CHECK(segments[0].compute == Approx(3));
  CHECK(segments[0].wire == Approx(3));
  CHECK(segments[1].compute == Approx(3));
  CHECK(segments[1].wire == Approx(2));
  CHECK(plain_time(segments) == Approx(11));
}

TEST_CASE("wire trace: files of ranks are read, cut by time and put together") {
  const auto path = test::scratch_folder() / "steps", merged = test::scratch_folder() / "merged.json";
  const auto write = [](const std::filesystem::path& file, const std::string& text) { std::ofstream(file) << text; };
  const auto events = [](int rank) {
    const std::string pid = std::to_string(rank);
    const auto event = [&](const char* name, int lane, int ts, int dur, int step) {
      return std::string(R"({"name": ")") + name + R"(", "ph": "X", "pid": )" + pid + R"(, "tid": )" + std::to_string(lane) +
             R"(, "ts": )" + std::to_string(ts) + R"(, "dur": )" + std::to_string(dur) + R"(, "args": {"step": )" + std::to_string(step) +
             "}}";
    };
    return R"([{"name": "process_name", "ph": "M", "pid": )" + pid + R"(, "args": {"name": "rank"}},)" +
           event("mlp 0", 1, 1000000, 500000, 1) + "," + event("mlp 0", 2, 1500000, 250000, 1) + "," +
           event("mlp 0", 1, 2000000, 500000, 2) + "\n]\n";
  };
  write(path.string() + ".rank0.json", events(0));
  CHECK(read_traces(path, 2).error().client_text.find("steps.rank1.json: cannot be read") != std::string::npos);
  write(path.string() + ".rank1.json", "[{");
  CHECK_FALSE(read_traces(path, 2).ok());
  write(path.string() + ".rank1.json", events(1));
  const auto steps = read_traces(path, 2);
  REQUIRE(steps.ok());
  REQUIRE(steps->size() == 2);
  CHECK(steps->at(1).size() == 4);
  CHECK_FALSE(steps->at(1)[1].on_wire);
  CHECK(steps->at(1)[3].on_wire);
  CHECK(steps->at(1)[3].end == Approx(1.75));
  CHECK(duration(steps->at(1)) == Approx(0.75));
  CHECK(between_steps(*steps) == Approx(0.25));
  CHECK(within(*steps, 1.5, 3).size() == 1);
  CHECK(within(*steps, 1.5, 3).begin()->first == 2);
  REQUIRE(merge_traces(*steps, merged).ok());
  const auto json = nlohmann::json::parse(read_file(merged));
  CHECK(std::count_if(json.begin(), json.end(), [](const auto& event) { return event.at("ph") == "X"; }) == 6);
}

TEST_CASE("overlap picture: lanes of both ranks, well-formed and small") {
  std::vector<TraceSpan> overlapped;
  for (const std::uint32_t rank : {0U, 1U}) {
    double at = 0;
    for (int layer = 0; layer < 30; ++layer)
      for (const char* part : {"attention A ", "attention B ", "mlp A ", "mlp B "}) {
        overlapped.push_back(span(part + std::to_string(layer), rank, false, at, at + 1));
        overlapped.push_back(span(part + std::to_string(layer), rank, true, at + 1, at + 2));
        at += 1;
      }
  }
  const std::string picture = overlap_picture(plain_step(), overlapped);
  CHECK(picture.size() < 60'000);
  for (const char* word : {"rank 0 core", "rank 1 wire", "attn A", "mlp B", "mlp 0, 3000.0 ms", "attention B 14"})
    CHECK(picture.find(word) != std::string::npos);
  CHECK(picture.find("attention B 25") == std::string::npos);  // two layers only
  const auto count = [&](const std::string& word) {
    std::size_t found = 0;
    for (auto at = picture.find(word); at != std::string::npos; at = picture.find(word, at + 1)) ++found;
    return found;
  };
  CHECK(count("<rect") == count("</rect>") + count("class=\"track\"/>"));
  CHECK(count("<text") == count("</text>"));
  CHECK(overlap_picture({}, {}).ends_with("</svg>\n"));
}

TEST_CASE("bench tp: JSON has the promised keys first, medians, and the share of the bound") {
  TpFigures figures;
  figures.setting = "A";
  figures.iso_bound_s = 2;
  figures.by_server["bf16_plain"].ttft_s = {6, 5, 30};
  figures.by_server["int8_plain"].ttft_s = {4, 4, 4};
  figures.by_server["int8_iso"].ttft_s = {2.4, 2.4};
  figures.by_server["int8_iso"].decode_tok_s = {90, 100, 110};
  figures.by_server["int8_plain"].exposed_s = {2};
  const auto json = nlohmann::ordered_json::parse(tp_json(figures));
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  keys.resize(4);
  CHECK(keys == std::vector<std::string>{"setting", "ttft_s", "iso_bound_s", "decode_tok_s"});
  CHECK(json["ttft_s"]["bf16_plain"] == 6);
  CHECK(json["ttft_s"]["bf16_iso"] == 0);
  CHECK(json["decode_tok_s"]["int8_iso"] == 100);
  CHECK(json["share_of_bound"] == Approx(0.8));
  const std::string table = tp_table(figures);
  CHECK(table.find("share of the bound reached   80.0 %") != std::string::npos);
  CHECK(table.find("int8 over bf16               0.667") != std::string::npos);
}

TEST_CASE("bench tp: the cluster file places each rank at an end of the link, on a core of its own") {
  const std::string text = tp_cluster_text({"int8_iso", "/m.gguf", "/scratch", "int8", "auto", "int8", "int8", "", {2, 5}});
  for (const char* line : {"codec = \"int8\"\noverlap = \"auto\"", "namespace = \"troupe-bench-0\"\ncores = [2]",
                           "namespace = \"troupe-bench-1\"\ncores = [5]", "interface = \"data\"", "tensor_parallel = 2"})
    CHECK(text.find(line) != std::string::npos);
}
