#include "runtime/schedule/cost_model.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <fstream>
#include <random>
#include <sstream>
#include <string>

namespace troupe::schedule {
namespace {
/// A machine: 1 ms + 150 us a decode row + 400 us a prompt token + 20 ns a position read by a decode row, 8 ns by a prompt token.
std::uint32_t true_us(const StepLoad& load) {
  return static_cast<std::uint32_t>(1000.0 + 150.0 * load.decode_rows + 400.0 * load.prefill_tokens +
                                    0.02 * static_cast<double>(load.decode_context) + 0.008 * static_cast<double>(load.prefill_context));
}
StepLoad load_of(std::uint32_t decode, std::uint32_t prefill, std::uint32_t context) {
  StepLoad load;
  for (std::uint32_t i = 0; i < decode; ++i) load = load.with_decode(context);
  return prefill > 0 ? load.with_chunk(context, prefill) : load;
}
/// As if every step with prompt tokens had been made as large as its limit let it be.
void observe(CostModel& model, const StepLoad& load, std::uint32_t us) { model.observe(load, us, load.prefill_tokens > 0); }
}  // namespace

TEST_CASE("the cost model learns a linear machine") {
  CostModel model;
  std::mt19937 random(3);
  for (int i = 0; i < 200; ++i) {
    const StepLoad load = load_of(random() % 32, random() % 3 == 0 ? random() % 512 : 0, random() % 4000);
    observe(model, load, true_us(load));
  }
  for (const StepLoad& load : {load_of(1, 0, 10), load_of(16, 0, 2000), load_of(8, 256, 1000), load_of(0, 512, 0)})
    CHECK(model.predict_us(load) == Approx(true_us(load)).epsilon(0.05));
  CHECK(model.prefill_token_us() == Approx(400).epsilon(0.1));
}

TEST_CASE("the first prompts replace the prior") {
  CostModel model;
  for (int i = 0; i < 3; ++i) observe(model, load_of(0, 200, 0), true_us(load_of(0, 200, 0)));
  CHECK(model.predict_us(load_of(0, 200, 0)) == Approx(true_us(load_of(0, 200, 0))).epsilon(0.1));
}

TEST_CASE("the cost model follows a machine that becomes slower") {
  CostModel model;
  for (int i = 0; i < 300; ++i) observe(model, load_of(4, 0, 100), 2000);
  for (int i = 0; i < 150; ++i) observe(model, load_of(4, 0, 100), 6000);
  CHECK(model.predict_us(load_of(4, 0, 100)) > 5000);
}

TEST_CASE("an hour of decoding wears nothing away of what a prompt costs") {
  CostModel model;
  for (int i = 0; i < 20; ++i) observe(model, load_of(4, 100, 500), true_us(load_of(4, 100, 500)));
  for (int i = 0; i < 20; ++i) observe(model, load_of(4, 0, 500), true_us(load_of(4, 0, 500)));
  std::mt19937 random(5);
  for (int i = 0; i < 100'000; ++i) {
    const StepLoad load = load_of(1 + random() % 4, 0, random() % 1000);
    observe(model, load, true_us(load) * (95 + random() % 11) / 100);
  }
  CHECK(model.predict_us(load_of(4, 100, 500)) == Approx(true_us(load_of(4, 100, 500))).epsilon(0.1));
}

TEST_CASE("a step that something held up does not spoil the model") {
  CostModel model;
  for (int i = 0; i < 50; ++i) observe(model, load_of(4, i % 2 * 100, 200), true_us(load_of(4, i % 2 * 100, 200)));
  observe(model, load_of(4, 100, 200), 20 * true_us(load_of(4, 100, 200)));
  CHECK(model.predict_us(load_of(4, 100, 200)) < 1.5 * true_us(load_of(4, 100, 200)));
  CHECK(model.margin() < 1.05);
}

TEST_CASE("what holds up a short step says nothing of the long ones") {
  CostModel model;
  for (int i = 0; i < 50; ++i) observe(model, load_of(4, 100, 200), true_us(load_of(4, 100, 200)));
  for (int i = 0; i < 10; ++i) model.observe(load_of(4, 10, 200), 2 * true_us(load_of(4, 10, 200)), false);
  CHECK(model.margin() < 1.05);
}

TEST_CASE("where steps vary, the chunk keeps a distance from the limit") {
  CostModel steady, uneven;
  std::mt19937 random(11);
  for (int i = 0; i < 200; ++i) {
    const StepLoad load = load_of(4, 100 + random() % 50, random() % 1000);
    observe(steady, load, true_us(load));
    observe(uneven, load, true_us(load) * (80 + random() % 41) / 100);
  }
  CHECK(steady.margin() < 1.02);
  CHECK(uneven.margin() > 1.1);
  const StepLoad streams = load_of(4, 0, 500);
  const std::uint32_t rows = uneven.largest_chunk(streams, 500, 512, 60000.0);
  CHECK(rows < steady.largest_chunk(streams, 500, 512, 60000.0));
  int over = 0;
  for (int i = 0; i < 1000; ++i) over += true_us(streams.with_chunk(500, rows)) * (80 + random() % 41) / 100 > 60000.0;
  CHECK(over < 300);  // without the margin it would be half of them
}

TEST_CASE("recorded steps are predicted, and few exceed the margin") {
  for (const char* name : {"newcomer", "unique"}) {
    INFO(name);
    std::ifstream file(std::string(TROUPE_TRACES "/") + name + ".txt");
    REQUIRE(file);
    CostModel model;
    double prefill_error = 0, decode_error = 0;
    int prefills = 0, decodes = 0, beyond = 0, seen = 0;
    for (std::string line; std::getline(file, line);) {
      if (line.front() == '#') continue;
      StepLoad load;
      double us = 0;
      std::istringstream(line) >> load.decode_rows >> load.prefill_tokens >> load.decode_context >> load.prefill_context >> us;
      const double predicted = model.predict_us(load);
      const bool learned = ++seen > 6;
      if (learned && load.prefill_tokens > 0) {
        prefill_error += std::abs(predicted - us) / us;
        ++prefills;
        beyond += us > predicted * model.margin();
      } else if (learned) {
        decode_error += std::abs(predicted - us) / us;
        ++decodes;
      }
      observe(model, load, static_cast<std::uint32_t>(us));
    }
    REQUIRE(prefills > 30);
    REQUIRE(decodes > 90);
    CHECK(prefill_error / prefills < 0.25);
    CHECK(decode_error / decodes < 0.12);
    CHECK(beyond < prefills / 5);
  }
}

TEST_CASE("costs never go negative, so time grows with the chunk") {
  CostModel model;
  std::mt19937 random(9);
  for (int i = 0; i < 500; ++i) observe(model, load_of(random() % 8, random() % 64, random() % 100), 500 + random() % 9000);  // pure noise
  double before = 0;
  for (std::uint32_t rows = 0; rows < 512; rows += 16) {
    const double now = model.predict_us(load_of(2, rows, 50));
    CHECK(now >= before);
    before = now;
  }
}

TEST_CASE("the largest chunk is the largest that fits") {
  CostModel model;
  for (int i = 0; i < 100; ++i) observe(model, load_of(i % 8, i % 2 * 100, 500), true_us(load_of(i % 8, i % 2 * 100, 500)));
  const StepLoad streams = load_of(8, 0, 500);
  for (double limit : {3000.0, 20000.0, 79000.0}) {
    const std::uint32_t rows = model.largest_chunk(streams, 300, 512, limit);
    CHECK((rows == 0 || model.bound_us(streams.with_chunk(300, rows)) <= limit));
    CHECK((rows == 512 || model.bound_us(streams.with_chunk(300, rows + 1)) > limit));
  }
  CHECK(model.largest_chunk(streams, 0, 0, 1e9) == 0);
  CHECK(model.largest_chunk(streams, 0, 512, 1.0) == 0);
}

}  // namespace troupe::schedule
