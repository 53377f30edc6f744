#include "tests/runtime/collective/rank_threads.h"

#include "runtime/collective/loopback_transport.h"

#include <barrier>
#include <thread>

namespace troupe::test {

RankThreads::RankThreads(collective::TransportSpec spec, std::size_t ranks) : spec_(std::move(spec)), ranks_(ranks) {
  if (spec_.name == "loopback") spec_.hub = std::make_shared<collective::LoopbackHub>();
}

std::vector<std::exception_ptr> RankThreads::all(const Part& part, const Change& change) {
  std::vector<std::exception_ptr> failures(ranks_);
  std::vector<std::string> addresses(ranks_);
  std::barrier opened(static_cast<std::ptrdiff_t>(ranks_));
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < ranks_; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        Result<std::unique_ptr<collective::Port>> port = collective::open_port(spec_);
        if (port) addresses[rank] = (*port)->address();
        opened.arrive_and_wait();
        if (!port) throw std::runtime_error(port.error().client_text);
        collective::Meeting meeting{GroupEpoch{7}, "a token of this group", addresses, rank};
        if (change) change(meeting);
        Result<std::unique_ptr<collective::Transport>> met = (*port)->meet(meeting, abort);
        if (!met) throw std::runtime_error(met.error().client_text);
        part(std::move(*met));
      } catch (...) {
        failures[rank] = std::current_exception();
        abort = true;  // of the others
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return failures;
}

void RankThreads::run(const Part& part, const Change& change) {
  for (const std::exception_ptr& failure : all(part, change)) {
    if (failure) std::rethrow_exception(failure);
  }
}

std::vector<std::string> RankThreads::outcomes(const Part& part, const Change& change) {
  std::vector<std::string> texts;
  for (const std::exception_ptr& failure : all(part, change)) {
    try {
      if (failure) std::rethrow_exception(failure);
      texts.emplace_back();
    } catch (const std::exception& error) {
      texts.emplace_back(error.what());
    }
  }
  return texts;
}

}  // namespace troupe::test
