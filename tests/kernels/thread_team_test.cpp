// The thread team: every member runs exactly once a call, barriers order writes, waiting asleep or spinning.
#include "kernels/cpu/thread_team.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <numeric>
#include <sched.h>
#include <thread>

using namespace troupe::kernels::cpu;

TEST_CASE("every member runs once a call") {
  for (const std::size_t threads : {1, 2, 3, 8})
    for (const unsigned spin : {0U, 30U}) {
      ThreadTeam team({threads, false, spin});
      CHECK(team.size() == threads);
      std::vector<std::size_t> calls(threads);  // plain: a lost or doubled call shows, and a race to the sanitizer
      std::size_t runs = 0;
      for (int i = 0; i < 300; ++i) {
        const std::size_t active = team.active();
        std::vector<std::size_t> seen(threads);
        team.run([&](const ThreadTeam::Member& member) { seen[member.index()] = member.count(); });
        CHECK(std::accumulate(seen.begin(), seen.end(), std::size_t{0}) >= active);
        for (std::size_t t = 0; t < threads; ++t) calls[t] += seen[t] > 0;
        ++runs;
      }
      CHECK(calls[0] == runs);
      if (spin == 0)  // never shrinks
        for (const std::size_t c : calls) CHECK(c == runs);
    }
}

TEST_CASE("a barrier orders what came before it") {
  for (const unsigned spin : {0U, 30U}) {
    ThreadTeam team({4, false, spin});
    std::vector<int> values(4), sums(4);
    for (int i = 0; i < 200; ++i) {
      std::size_t count = 0;
      team.run([&](const ThreadTeam::Member& member) {
        if (member.index() == 0) count = member.count();
        for (int round = 0; round < 3; ++round) {
          values[member.index()] = i + round;
          member.barrier();
          int sum = 0;
          for (std::size_t t = 0; t < member.count(); ++t) sum += values[t];
          sums[member.index()] = sum;
          member.barrier();
        }
      });
      for (std::size_t t = 0; t < count; ++t)
        if (sums[t] != static_cast<int>(count) * (i + 2)) FAIL("member " << t << " saw " << sums[t]);
    }
  }
}

TEST_CASE("a team shrinks beside a held core, and comes back when the core is free") {
  ThreadTeam team({2, false, 30});
  const auto runs_until = [&](std::size_t active, bool held) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);  // of a loaded machine; usual is 0.2
    while (team.active() != active && std::chrono::steady_clock::now() < end)
      team.run([&](const ThreadTeam::Member& member) {
        const bool waits = held && member.index() == 1;
        std::this_thread::sleep_for(std::chrono::microseconds(waits ? 3000 : 100));
        // Work of its own for thread 0: one that gets no time of its core shrinks the team, too.
        if (!waits)
          for (const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(900);
               std::chrono::steady_clock::now() < until;) {
          }
      });
    return team.active() == active;
  };
  CHECK(runs_until(1, true));
  CHECK(runs_until(2, false));
}

TEST_CASE("shares cover everything once") {
  ThreadTeam team({5, false, 0});
  for (const std::size_t n : {0, 1, 4, 5, 6, 97}) {
    std::vector<int> hits(n);
    team.run([&](const ThreadTeam::Member& member) {
      for (std::size_t i = member.begin(n); i < member.end(n); ++i) ++hits[i];
    });
    for (const int h : hits) CHECK(h == 1);
  }
  std::size_t alone = 0;
  team.run_alone([&](const ThreadTeam::Member& member) {
    member.barrier();
    alone = member.end(10) - member.begin(10);
  });
  CHECK(alone == 10);
}

TEST_CASE("teams come and go, also without work") {
  for (int i = 0; i < 50; ++i) {
    ThreadTeam team({3, false, i % 2 ? 20U : 0U});
    if (i % 3 == 0) team.run([](const ThreadTeam::Member&) {});
  }
}

TEST_CASE("pinning ends with the team, and loading does not pin the caller") {
  cpu_set_t before, during, after;
  sched_getaffinity(0, sizeof before, &before);
  {
    ThreadTeam team({2, true, 0});
    team.run([](const ThreadTeam::Member&) {}, false);
    sched_getaffinity(0, sizeof during, &during);
    CHECK(CPU_EQUAL(&before, &during));
    team.run([](const ThreadTeam::Member&) {});
    sched_getaffinity(0, sizeof during, &during);
    if (CPU_COUNT(&before) >= 2) CHECK(CPU_COUNT(&during) == 1);
  }
  sched_getaffinity(0, sizeof after, &after);
  CHECK(CPU_EQUAL(&before, &after));
}
