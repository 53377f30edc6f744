// See rank_node.h. The parts stand in the order of the layers; they are taken down in the reverse order.
#include "cluster/rank_node.h"

#include "actors/actor_config.h"
#include "actors/actor_context.h"
#include "actors/compute.h"
#include "actors/shard_actor.h"
#include "cluster/link/link_actor.h"
#include "cluster/process_keeper.h"
#include "cluster/rank_member.h"
#include "cluster/rank_order.h"
#include "runtime/base/log.h"

#include <caf/actor_system.hpp>
#include <caf/send.hpp>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <mutex>
#include <optional>
#include <thread>
#include <unistd.h>

namespace troupe::cluster {
namespace {

constexpr std::size_t kMostOrderBytes = 1 << 20;
/// A step that ignores the abort flag must not keep the process: less than the keeper's grace time.
constexpr std::chrono::milliseconds kFarewell{2000};

int fail(const std::string& reason) {
  std::fprintf(stderr, "troupe shard: %s\n", reason.c_str());
  return EXIT_FAILURE;
}

std::string read_order() {
  std::string text(kMostOrderBytes, '\0');
  const auto count = ::read(kSecretDescriptor, text.data(), text.size());
  text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  ::close(kSecretDescriptor);
  return text;
}

/// Where the main thread waits: for a signal, or for a word of an actor.
class EndOfProcess {
 public:
  EndOfProcess() : word_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // before any other thread starts
    signals_ = base::Descriptor(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  }
  void say(const std::string& reason) {
    {
      const std::lock_guard guard(mutex_);
      if (!reason_) reason_ = reason;
    }
    ::eventfd_write(word_.get(), 1);
  }
  /// The reason; none where nothing is wrong.
  std::string wait() {
    pollfd polled[] = {{signals_.get(), POLLIN, 0}, {word_.get(), POLLIN, 0}};
    for (;;) {
      if (::poll(polled, 2, -1) < 0) continue;
      if (polled[0].revents != 0 && parent_asks()) return {};
      if (polled[1].revents == 0) continue;
      const std::lock_guard guard(mutex_);
      return reason_.value_or(std::string());
    }
  }

 private:
  /// A service manager may tell all processes at once; but the streams end first, and then the parent says so, several times.
  bool parent_asks() {
    signalfd_siginfo signal{};
    return ::read(signals_.get(), &signal, sizeof signal) == sizeof signal && signal.ssi_pid == static_cast<std::uint32_t>(::getppid());
  }
  base::Descriptor word_, signals_;
  std::mutex mutex_;
  std::optional<std::string> reason_;
};

}  // namespace

int run_rank_node() {
  const auto order = RankOrder::parse(read_order());
  if (!order) return fail("it is started by troupe serve and troupe launch (" + order.error().client_text + ")");
  base::set_log_level(order->log_level);
  base::set_log_format(order->log_format);
  base::set_log_node(order->node);
  auto faults = exec::parse_fault(order->fault);
  if (!faults) return fail(faults.error().client_text);
  auto tls = link::LinkTls::make(order->certificate);
  if (!tls) return fail(tls.error().client_text);

  EndOfProcess end;
  actors::ActorConfig config(1);
  link::enable_link(config, order->heartbeat, order->silence);
  std::optional<caf::actor_system> system(std::in_place, config);
  auto link = link::spawn_link(*system, {std::move(*tls), nullptr, order->door_node});
  const auto context = std::make_shared<actors::ActorContext>();
  context->registry = std::make_shared<actors::ActorRegistry>(NodeId{order->rank + 2U}, order->incarnation);
  context->metrics = std::make_shared<base::Metrics>();
  auto compute = std::make_shared<actors::ComputeThread>();
  auto shard = actors::spawn_shard(*system, {context, compute, [&faults] { return exec::make_shard_engine(*faults); }, {}});
  auto member = spawn_rank_member(*system, *order, link, shard, [&end](const std::string& reason) { end.say(reason); });

  const auto reason = end.wait();
  const int exit_code = reason.empty() ? EXIT_SUCCESS : EXIT_FAILURE;
  if (!reason.empty()) base::log(base::LogLevel::kWarning, "rank_ends", "reason=" + base::log_value(reason));
  std::thread([exit_code] {
    std::this_thread::sleep_for(kFarewell);
    std::_Exit(exit_code);
  }).detach();
  caf::anon_send_exit(member, caf::exit_reason::user_shutdown);
  caf::anon_send_exit(shard, caf::exit_reason::user_shutdown);
  caf::anon_send_exit(link, caf::exit_reason::kill);
  member = shard = {};
  link = {};
  context->registry->clear();
  compute.reset();  // the shard holds it until it has ended
  system.reset();
  return exit_code;
}

}  // namespace troupe::cluster
