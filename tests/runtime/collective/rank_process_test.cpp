// Ranks as processes over UCX: they agree, and when one is killed or stands still the others get out, and nothing is left behind.
#include "tests/runtime/collective/rank_wire.h"

#include <catch2/catch.hpp>
#include <sys/wait.h>
#include <unistd.h>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <set>
#include <thread>
#include <utility>
#include <vector>

using troupe::test::hear;
using troupe::test::say;

namespace {
class RankProcess {
 public:
  RankProcess(std::size_t rank, std::size_t ranks, const std::string& interface) {
    int sockets[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) == 0);
    const std::string words[] = {std::to_string(rank), std::to_string(ranks)};
    child_ = ::fork();
    if (child_ == 0) {
      ::dup2(sockets[1], 0);
      ::execl(TROUPE_RANK_PROGRAM, TROUPE_RANK_PROGRAM, words[0].c_str(), words[1].c_str(), interface.c_str(), nullptr);
      ::_exit(9);
    }
    ::close(sockets[1]);
    socket_ = sockets[0];
    const timeval patience{20, 0};  // a hang is a failure, not a time-out of the suite
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  }
  ~RankProcess() {
    kill();
    ::close(socket_);
  }
  void signal(int number) const { ::kill(child_, number); }
  /// Until it is no more: a zombie still looks alive to its peers.
  void kill() {
    if (child_ <= 0) return;
    signal(SIGKILL);
    ::waitpid(std::exchange(child_, -1), nullptr, 0);
  }
  std::string heard() const { return hear(socket_).value_or("nothing"); }
  void tell(const std::string& text) const { REQUIRE(say(socket_, text)); }

 private:
  pid_t child_ = -1;
  int socket_ = -1;
};

using Group = std::vector<std::unique_ptr<RankProcess>>;
Group start(std::size_t ranks, const std::string& interface) {
  Group group;
  for (std::size_t rank = 0; rank < ranks; ++rank) group.push_back(std::make_unique<RankProcess>(rank, ranks, interface));
  std::vector<std::string> addresses;
  for (const auto& process : group) addresses.push_back(process->heard());
  for (const auto& process : group) {
    for (const std::string& address : addresses) process->tell(address);
  }
  return group;
}

/// All ranks tell the same three sums.
void agree(const Group& group) {
  std::set<std::string> sums;
  for (const auto& process : group) {
    for (int i = 0; i < 3; ++i) sums.insert(process->heard());
  }
  CHECK(sums.size() == 1);
  CHECK(sums.count("nothing") == 0);
}

std::set<std::string> shared_memory() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    if (entry.path().filename().string().find("ucx") != std::string::npos) names.insert(entry.path().filename());
  }
  return names;
}
}  // namespace

TEST_CASE("a killed rank is lost to the others, and no shared memory stays") {
  const std::string interface = GENERATE("", "lo");
  const std::size_t ranks = GENERATE(2u, 3u);
  CAPTURE(interface, ranks);
  const std::set<std::string> before = shared_memory();
  {
    const Group group = start(ranks, interface);
    agree(group);
    group[1]->kill();
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      if (rank != 1) CHECK_THAT(group[rank]->heard(), Catch::Contains("is lost") || Catch::Contains("has left"));
    }
  }
  CHECK(shared_memory() == before);
}

TEST_CASE("all ranks killed at once leave no shared memory") {
  const std::set<std::string> before = shared_memory();
  {
    const Group group = start(2, "");
    agree(group);
    for (const auto& process : group) process->signal(SIGKILL);
  }
  CHECK(shared_memory() == before);
}

TEST_CASE("who waits for a rank that stands still gets out when told to") {
  const std::string interface = GENERATE("", "lo");
  CAPTURE(interface);
  const Group group = start(2, interface);
  agree(group);
  group[1]->signal(SIGSTOP);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const auto told = std::chrono::steady_clock::now();
  group[0]->tell("abort");
  CHECK(group[0]->heard() == "interrupted");
  CHECK(std::chrono::steady_clock::now() - told < std::chrono::seconds(10));
  group[1]->signal(SIGCONT);
}
