// The writers: a report with a figure of every kind as table, JSON and page.
#include "cluster/bench/charts.h"
#include "cluster/printable.h"
#include "cluster/bench/report.h"

#include <catch2/catch.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <vector>

using namespace troupe::cluster::bench;
using nlohmann::json;

namespace {

Report full_report() {
  Report report;
  report.version = "9.9";
  report.build = "g++ 12";
  report.date = "2026-01-31T12:00:00Z";
  report.machine = {"Some <CPU> & Co", 4, 32 << 10, 2 << 20, 64 << 20, std::uint64_t{16} << 30, "Linux 6", 0.25};
  report.setting = {"a \"model\".gguf", "Q4_1 + Q8_0", "int8", "int8", "avx512_vnni", 2, ""};
  report.shard = "llama, 30 layers";
  report.options = {{"repetitions", "5"}};
  report.prefill = {{512, {1111.5, 1200, 1000, 5}, 321.5}, {2048, {999.25, 1000, 900, 5}, 300}};
  report.decode = {
      {1, 128, {200.5, 210, 190, 5}, 5, 21.5}, {4, 128, {640.25, 650, 630, 5}, 6.25, 22.5}, {1, 1024, {150, 151, 149, 5}, 6.5, 20}};
  StepFigure step{"served", 32, 128, 1000, 900, {}, {{"actors", 31.5}, {"gateway", 12}}};
  step.parts = {{"norm, QKV", StepPart::Kind::kProduct, 700, 88.5, 33.5},
                {"attention", StepPart::Kind::kOtherKernel, 200},
                {"tables", StepPart::Kind::kExecutor, 60},
                {"cache tier", StepPart::Kind::kScheduler, 30},
                {"from step to step", StepPart::Kind::kWaiting, 10}};
  report.steps = {step};
  report.peaks = {{"int8 products", "avx512_vnni", 2, 1724.5, "GOPS"}, {"DRAM read", "avx512_vnni", 2, 43, "GB/s"}};
  report.products = {{"gate, up", "Q4_1", 3072, 576, 64, "avx512_vnni", 2, 862.25, 1724.5, 3.5, 43},
                     {"gate, up", "Q4_1", 3072, 576, 1, "avx512_vnni", 2, 100, 1724.5, 21.5, 43}};
  HttpFigure unique;
  unique.scenario = "unique";
  unique.clients = 8;
  unique.requests = 32;
  unique.errors = 1;
  unique.first_error = "HTTP 503: <busy>";
  unique.output_tokens_per_second = 345.5;
  unique.first_token = {101.5, 150, 201.5, 110, 210, 31};
  unique.between_tokens = {11.5, 20, 31.5, 12, 44.5, 1900};
  HttpFigure newcomer = unique;
  newcomer.scenario = "newcomer";
  newcomer.newcomer_prompt_tokens = 2000;
  newcomer.newcomer_first_token_ms = 1234.5;
  newcomer.before = newcomer.after = {7, 8, 9, 7, 10, 100};
  newcomer.during = {60, 80, 98, 61, 99.5, 40};
  HttpFigure chat = unique;
  chat.scenario = "multiturn";
  chat.first_token_by_turn = {50.5, 60.5};
  report.http = {unique, chat, newcomer};
  CacheFigure cold{"cold", unique, "", 0}, host{"host", unique, "cold", 0.123}, tree{"16 branches", unique, "", 0};
  cold.load.scenario = host.load.scenario = "turn";
  cold.load.prompt_tokens = host.load.prompt_tokens = 2000;
  host.load.cached_tokens = 1937;
  host.load.tiers = {33, 1904, 0};
  tree.load.scenario = "mcts";
  tree.load.wall_seconds = 6.25;
  report.cache = {cold, host, tree};
  report.notes = {"a note"};
  return report;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// Every element is closed in order, attributes are quoted, and no bare '<' or '&' is left: enough of XML for our own pages.
std::string fault_of_markup(const std::string& page) {
  std::vector<std::string> open;
  std::size_t at = 0;
  while ((at = page.find_first_of("<&", at)) != std::string::npos) {
    const std::string here = page.substr(at, 60);
    if (page[at] == '&') {
      const auto end = page.find(';', at);
      const std::string name = end == std::string::npos ? "" : page.substr(at + 1, end - at - 1);
      if (name != "amp" && name != "lt" && name != "gt" && name != "quot" && name != "#39") return "entity: " + here;
      at = end;
      continue;
    }
    const auto end = page.find('>', at);
    if (end == std::string::npos) return "not closed: " + here;
    std::string tag = page.substr(at + 1, end - at - 1);
    at = end;
    if (tag.starts_with('!')) continue;
    if (std::count(tag.begin(), tag.end(), '"') % 2 != 0 || contains(tag, "<")) return "attributes: " + here;
    if (tag.starts_with('/')) {
      if (open.empty() || open.back() != tag.substr(1)) return "closes what is not open: " + here;
      open.pop_back();
    } else if (!tag.ends_with('/')) {
      open.push_back(tag.substr(0, tag.find(' ')));
    }
  }
  return open.empty() ? "" : "left open: " + open.back();
}

}  // namespace

TEST_CASE("bench report: JSON has every figure with what it was measured on") {
  const json parsed = json::parse(report_json(full_report()));
  CHECK(parsed["program"] == "troupe 9.9");
  CHECK(parsed["machine"]["cores"] == 4);
  CHECK(parsed["options"]["repetitions"] == "5");
  REQUIRE(parsed["runs"].size() == 5);
  CHECK(parsed["runs"][0]["run"] == "prefill");
  CHECK(parsed["runs"][0]["rows"] == 512);
  CHECK(parsed["runs"][0]["median_tokens_per_second"] == 1111.5);
  CHECK(parsed["runs"][2]["run"] == "decode");
  CHECK(parsed["runs"][3]["batch"] == 4);
  CHECK(parsed["runs"][3]["median_tokens_per_second"] == 640.25);
  CHECK(parsed["runs"][3]["median_tokens_per_second_per_sequence"] == Approx(160.0625));
  for (const char* list : {"runs", "steps", "http", "cache"})
    for (const json& figure : parsed[list]) {
      CHECK(figure["weights"] == "Q4_1 + Q8_0");
      CHECK(figure["isa"] == "avx512_vnni");
      CHECK(figure["threads"] == 2);
    }
  const json& step = parsed["steps"][0];
  CHECK(step["outside_kernels_percent"] == Approx(10));
  CHECK(step["loss_to_bare_step_percent"] == Approx(10));
  CHECK(step["parts"][0]["name"] == "norm, QKV");
  CHECK(step["parts"][0]["percent"] == 70);
  CHECK(step["processor_us"]["actors"] == 31.5);
  CHECK(parsed["products"][0]["share_of_peak_percent"] == Approx(50));
  CHECK(parsed["products"][1]["share_of_bandwidth_percent"] == Approx(50));
  CHECK(parsed["peaks"][1]["value"] == 43);
  CHECK(parsed["http"][0]["ttft_ms"]["p99"] == 201.5);
  CHECK(parsed["http"][0]["errors"] == 1);
  CHECK(parsed["http"][1]["ttft_ms_p50_by_turn"] == json({50.5, 60.5}));
  CHECK(parsed["http"][2]["itl_during_ms"]["max"] == 99.5);
  CHECK_FALSE(parsed["http"][0].contains("newcomer_ttft_ms"));
  REQUIRE(parsed["cache"].size() == 3);
  const json& host = parsed["cache"][1];
  CHECK(host["scenario"] == "turn");
  CHECK(host["where"] == "host");
  CHECK(host["ratio_to"] == json{{"where", "cold"}, {"ratio", 0.123}});
  CHECK(host["cached_tokens_mean_by_tier"] == json{{"device", 33}, {"host", 1904}, {"disk", 0}});
  CHECK(host["cached_percent"] == Approx(96.85));
  CHECK_FALSE(parsed["cache"][0].contains("ratio_to"));
}

TEST_CASE("bench report: the table has every figure") {
  Report report = full_report();
  const std::string table = report_table(report);
  for (const char* figure : {"1111.5",      "999.2",         "200.5",          "640.2",       "1.25 times",
                             "norm, QKV",   "70.00",         "actors 31.5 us", "1724.5",      "862.2",
                             "50.0",        "345.5",         "1234.5",         "during 99.5", "60.5",
                             "HTTP 503",    "0.123 of cold", "1904",           "6.25 s",      "Q4_1 + Q8_0 weights",
                             "avx512_vnni", "2 threads",     "a note"})
    CHECK(contains(table, figure));
  CHECK_FALSE(contains(table, "interrupted"));
  report.interrupted = true;
  CHECK(contains(report_table(report), "interrupted"));
}

TEST_CASE("bench report: the page is well-formed, complete and needs nothing from outside") {
  const std::string page = report_html(full_report());
  CHECK(fault_of_markup(page).empty());
  INFO(fault_of_markup(page));
  for (const char* figure : {"1111.5",
                             "999.2",
                             "200.5",
                             "640.2",
                             "1.25 times",
                             "norm, QKV",
                             "70.00",
                             "actors 31.5 us",
                             "1724.5",
                             "862.2",
                             "345.5",
                             "1234",
                             "99.5 ms",
                             "HTTP 503: &lt;busy&gt;",
                             "turn, host",
                             "0.123 of cold",
                             "97 % cached",
                             "Some &lt;CPU&gt; &amp; Co",
                             "a &quot;model&quot;.gguf",
                             "a note"})
    CHECK(contains(page, figure));
  for (const char* outside : {"http://", "https://", "<script", "url(", "@import"}) CHECK_FALSE(contains(page, outside));
  CHECK(contains(page, "prefers-color-scheme: dark"));
}

TEST_CASE("bench report: a server's words command no terminal and break no page") {
  CHECK(troupe::cluster::printable("caf\u00e9 <b>") == "caf\u00e9 <b>");
  CHECK(troupe::cluster::printable("\x1b[2J\x07\r\n\x7f") == "?[2J????");
  CHECK(troupe::cluster::printable("a\u009b1mb\u0080") == "a?1mb?");
  CHECK(troupe::cluster::printable("a\xff\xc2") == "a\ufffd\ufffd");
  Report report = full_report();
  report.setting.model = report.http.front().first_error = "\x1b]0;me\x07\xff<x>";
  CHECK(contains(report_table(report), "?]0;me?\ufffd<x>"));
  CHECK_FALSE(contains(report_table(report), "\x1b"));
  const std::string page = report_html(report);
  CHECK(fault_of_markup(page).empty());
  CHECK(contains(page, "?]0;me?\ufffd&lt;x&gt;"));
  CHECK_FALSE(contains(page, "\xff"));
}

TEST_CASE("bench report: nothing measured is still a report") {
  const Report empty;
  CHECK(json::parse(report_json(empty))["runs"].empty());
  CHECK(fault_of_markup(report_html(empty)).empty());
  CHECK_FALSE(report_table(empty).empty());
  CHECK(four_rows_cost(empty, 128) == 0);
}

TEST_CASE("bench charts: escaped, and sane for odd values") {
  CHECK(escaped("<a b='c'>&\"\x01") == "&lt;a b=&#39;c&#39;&gt;&amp;&quot;?");
  CHECK(fault_of_markup(bar_chart("t", {})).empty());
  CHECK(fault_of_markup(bar_chart("t", {{"zero", 0, "0"}})).empty());
  CHECK(fault_of_markup(stacked_bars("t", {{"none", {}, ""}})).empty());
  const std::string line = line_chart("t", {"1"}, {{"one", {5}}, {"none", {0}}}, "x", "y");
  CHECK(fault_of_markup(line).empty());
  for (const std::string& svg : {bar_chart("t", {{"zero", 0, "0"}}), line, line_chart("t", {}, {}, "x", "y")}) {
    CHECK_FALSE(contains(svg, "nan"));
    CHECK_FALSE(contains(svg, "inf"));
  }
  // A bar of 50 of 100 is half as long as one of 100.
  const std::string bars = bar_chart("t", {{"half", 50, ""}, {"whole", 100, ""}});
  const auto width = [&](const std::string& name) {
    const auto tip = bars.find("<title>" + name);
    const auto at = bars.rfind("width=\"", tip);
    return std::stod(bars.substr(at + 7));
  };
  CHECK(width("whole") == Approx(2 * width("half")).margin(0.02));
}
