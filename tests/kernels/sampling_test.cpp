// Sampling: sets of top-k, top-p and min-p against a full sort in double, draws along the whole unit interval, scores, bad rows; the
// same on every level and number of threads.
#include "tests/kernels/support.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

using namespace troupe::kernels;
using namespace troupe::kernels::testing;

namespace {

SampleResult sample(Backend& backend, const SampleRequest& request) {
  SampleResult result;
  backend.sample({&request, 1}, {&result, 1});
  return result;
}
SampleRequest request_of(const std::vector<float>& logits) {
  SampleRequest r;
  r.logits = logits.data();
  r.width = logits.size();
  return r;
}

std::vector<std::uint32_t> sorted_ids(const std::vector<float>& logits) {
  std::vector<std::uint32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0U);
  std::stable_sort(ids.begin(), ids.end(), [&](std::uint32_t a, std::uint32_t b) { return logits[a] > logits[b]; });
  return ids;
}
/// All ids that some draw gives.
std::set<std::uint32_t> drawn(Backend& backend, SampleRequest request, int draws) {
  std::vector<SampleRequest> requests;
  for (int i = 0; i < draws; ++i) {
    request.uniform = (static_cast<float>(i) + 0.5F) / static_cast<float>(draws);
    requests.push_back(request);
  }
  std::vector<SampleResult> results(requests.size());
  backend.sample(requests, results);
  std::set<std::uint32_t> ids;
  for (const SampleResult& r : results) ids.insert(r.token);
  return ids;
}

}  // namespace

TEST_CASE("greedy takes the largest logit, the lowest id first") {
  Random random(41);
  for (const std::string& isa : cpu_isa_levels())
    for (const std::size_t n : {1, 15, 16, 17, 100, 512, 513, 49152}) {
      const auto backend = test_backend(isa, 1);
      std::vector<float> logits = normals(random, n);
      const std::size_t best = random.below(n);
      logits[best] = 50.0F;
      CHECK(sample(*backend, request_of(logits)).token == best);
      const std::size_t twin = random.below(n);
      logits[twin] = 50.0F;
      CHECK(sample(*backend, request_of(logits)).token == std::min(best, twin));
      std::fill(logits.begin(), logits.end(), -3.0F);
      CHECK(sample(*backend, request_of(logits)).token == 0);
    }
}

TEST_CASE("draws follow the cumulative distribution") {
  Random random(42);
  for (const std::string& isa : cpu_isa_levels())
    for (const std::size_t n : {5, 600, 2000}) {
      const auto backend = test_backend(isa, 1);
      const std::vector<float> logits = normals(random, n, 2.0F);
      for (const float temperature : {0.3F, 1.0F, 2.5F}) {
        std::vector<double> edges(n + 1);
        for (std::size_t i = 0; i < n; ++i) edges[i + 1] = edges[i] + std::exp(static_cast<double>(logits[i]) / temperature);
        SampleRequest request = request_of(logits);
        request.temperature = temperature;
        for (int i = 0; i < 200; ++i) {
          request.uniform = (static_cast<float>(i) + 0.5F) / 200.0F;
          const std::uint32_t id = sample(*backend, request).token;
          const double goal = request.uniform * edges[n], slack = 1e-5 * edges[n];
          CHECK(edges[id] <= goal + slack);
          CHECK(edges[id + 1] >= goal - slack);
        }
      }
    }
}

TEST_CASE("top-k draws exactly the k best") {
  Random random(43);
  const auto backend = test_backend(cpu_isa_levels().front(), 2);
  const std::vector<float> logits = normals(random, 1000, 0.5F);
  const auto order = sorted_ids(logits);
  for (const std::uint32_t k : {1, 2, 7, 40, 5000}) {
    SampleRequest request = request_of(logits);
    request.temperature = 5.0F;
    request.top_k = k;
    const auto ids = drawn(*backend, request, 4000);
    const std::size_t count = std::min<std::size_t>(k, logits.size());
    if (k <= 40) CHECK(ids == std::set<std::uint32_t>(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count)));
    if (k == 5000) CHECK(ids.size() > 900);
  }
}

TEST_CASE("top-p draws the smallest set that holds the share, min-p what is likely enough") {
  Random random(44);
  const auto backend = test_backend(cpu_isa_levels().front(), 1);
  for (const std::size_t n : {64, 3000})
    for (const float spread : {0.1F, 1.0F, 4.0F}) {
      const std::vector<float> logits = normals(random, n, spread);
      const auto order = sorted_ids(logits);
      double total = 0;
      for (const float x : logits) total += std::exp(static_cast<double>(x));
      for (const float share : {0.0F, 0.2F, 0.7F}) {
        std::size_t count = 0;
        for (double sum = 0; count < n && (count == 0 || sum < share * total); ++count)
          sum += std::exp(static_cast<double>(logits[order[count]]));
        SampleRequest request = request_of(logits);
        request.temperature = 1.0F;
        request.top_p = share;
        request.uniform = 0x1.fffffep-1F;
        const std::uint32_t last = sample(*backend, request).token;  // the end of the nucleus, give or take one of nearly equal sums
        const auto place = std::find(order.begin(), order.end(), last) - order.begin() + 1;
        CHECK(std::abs(place - static_cast<std::ptrdiff_t>(count)) <= 1);
        request.uniform = 0;
        CHECK(sample(*backend, request).token == order[0]);
      }
      SampleRequest request = request_of(logits);
      request.temperature = 1.0F;
      request.min_p = 0.25F;
      request.uniform = 0x1.fffffep-1F;
      const double least = std::exp(static_cast<double>(logits[sample(*backend, request).token]) - static_cast<double>(logits[order[0]]));
      CHECK(least >= 0.25 * (1 - 1e-5));
      for (const std::uint32_t id : drawn(*backend, request, 300))
        CHECK(std::exp(static_cast<double>(logits[id]) - static_cast<double>(logits[order[0]])) >= 0.25 * (1 - 1e-5));
    }
}

TEST_CASE("top-k, top-p and min-p together: the share is one of the k best") {
  const std::vector<float> logits = {std::log(0.4F), std::log(0.3F), std::log(0.2F), std::log(0.1F)};
  const auto backend = test_backend("ref", 1);
  SampleRequest request = request_of(logits);
  request.temperature = 1.0F;
  request.top_k = 2;
  request.top_p = 0.5F;  // 0.4 of 0.7 is more than half
  CHECK(drawn(*backend, request, 100) == std::set<std::uint32_t>{0});
  request.top_p = 0.6F;
  CHECK(drawn(*backend, request, 100) == std::set<std::uint32_t>{0, 1});
  request.top_k = 0;
  request.top_p = 0.95F;
  request.min_p = 0.4F;
  CHECK(drawn(*backend, request, 100) == std::set<std::uint32_t>{0, 1, 2});
  request.min_p = 0.6F;
  CHECK(drawn(*backend, request, 100) == std::set<std::uint32_t>{0, 1});
}

TEST_CASE("padding and banned ids are never drawn") {
  Random random(45);
  const auto backend = test_backend(cpu_isa_levels().front(), 1);
  std::vector<float> logits(1040, -1e30F);
  for (const std::size_t id : {3, 700, 1000}) logits[id] = random.normal();
  for (const bool cut : {false, true}) {
    SampleRequest request = request_of(logits);
    request.temperature = 3.0F;
    if (cut) request.top_p = 0.999F;
    CHECK(drawn(*backend, request, 500) == std::set<std::uint32_t>{3, 700, 1000});
    request.uniform = 0x1.fffffep-1F;
    CHECK(sample(*backend, request).token == (cut ? sorted_ids(logits)[2] : 1000));
  }
  SampleRequest request = request_of(logits);
  request.top_logprobs = 20;
  CHECK(sample(*backend, request).top_ids.size() == 3);
}

TEST_CASE("log-probabilities and the best few") {
  Random random(46);
  for (const std::string& isa : cpu_isa_levels())
    for (const float spread : {0.01F, 3.0F, 15.0F}) {
      const auto backend = test_backend(isa, 1);
      std::vector<float> logits = normals(random, 5000, spread);
      logits[40] = logits[30];  // a tie: the lower id first
      const auto order = sorted_ids(logits);
      double sum = 0;
      for (const float x : logits) sum += std::exp(static_cast<double>(x) - logits[order[0]]);
      const auto logprob = [&](std::uint32_t id) { return static_cast<double>(logits[id]) - logits[order[0]] - std::log(sum); };
      SampleRequest request = request_of(logits);
      request.top_logprobs = 20;
      request.temperature = 0.5F;  // does not enter the log-probabilities
      request.uniform = 0.4F;
      const SampleResult result = sample(*backend, request);
      CHECK(result.finite);
      CHECK(result.logprob == Approx(logprob(result.token)).margin(2e-5));
      REQUIRE(result.top_ids.size() == 20);
      for (std::size_t i = 0; i < 20; ++i) {
        CHECK(result.top_ids[i] == order[i]);
        CHECK(result.top_logprobs[i] == Approx(logprob(order[i])).margin(2e-5));
      }
      request.score = 1234;
      CHECK(sample(*backend, request).token == 1234);
      CHECK(sample(*backend, request).logprob == Approx(logprob(1234)).margin(2e-5));
    }
}

TEST_CASE("non-finite logits give no token") {
  Random random(47);
  for (const std::string& isa : cpu_isa_levels())
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()})
      for (const std::size_t at : {0, 15, 16, 98, 99}) {
        const auto backend = test_backend(isa, 1);
        std::vector<float> logits = normals(random, 100);
        logits[at] = bad;
        CHECK_FALSE(sample(*backend, request_of(logits)).finite);
      }
}

TEST_CASE("requests that make no sense are refused") {
  const auto backend = test_backend("ref", 1);
  const std::vector<float> logits(10, 0.0F);
  SampleRequest request = request_of(logits);
  request.score = 10;
  CHECK_THROWS_AS(sample(*backend, request), std::invalid_argument);
  request = request_of(logits);
  request.width = 0;
  CHECK_THROWS_AS(sample(*backend, request), std::invalid_argument);
}

TEST_CASE("results are the same on every level and number of threads") {
  Random random(48);
  std::vector<std::vector<float>> rows;
  std::vector<SampleRequest> requests;
  for (int i = 0; i < 60; ++i) rows.push_back(normals(random, random.between(1, 3000), 0.2F + 3.0F * random.uniform()));
  for (const auto& row : rows) {
    SampleRequest r = request_of(row);
    r.temperature = random.below(4) == 0 ? 0.0F : 0.2F + 2.0F * random.uniform();
    r.top_k = random.below(2) ? static_cast<std::uint32_t>(random.between(1, 60)) : 0;
    r.top_p = random.below(2) ? random.uniform() : 1.0F;
    r.min_p = random.below(3) ? 0.0F : 0.1F * random.uniform();
    r.uniform = random.uniform();
    r.want_logprob = true;
    r.top_logprobs = static_cast<std::uint32_t>(random.below(6));
    requests.push_back(r);
  }
  std::vector<SampleResult> expected(requests.size());
  test_backend("ref", 1)->sample(requests, expected);
  for (const std::string& isa : cpu_isa_levels())
    for (const std::size_t threads : {1, 4}) {
      std::vector<SampleResult> results(requests.size());
      test_backend(isa, threads)->sample(requests, results);
      for (std::size_t i = 0; i < results.size(); ++i) {
        CHECK(results[i].token == expected[i].token);
        CHECK(same_bits(&results[i].logprob, &expected[i].logprob, 1));
        CHECK(results[i].top_ids == expected[i].top_ids);
        CHECK(same_bits(results[i].top_logprobs, expected[i].top_logprobs));
      }
    }
}
