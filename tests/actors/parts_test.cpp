// The small parts: registry, request table, restart window, compute thread.
#include "actors/actor_registry.h"
#include "actors/compute.h"
#include "actors/request_table.h"
#include "runtime/base/restart_window.h"

#include <caf/all.hpp>
#include <capnp/message.h>
#include <catch2/catch.hpp>

#include <atomic>
#include <future>
#include <vector>

using namespace troupe;
using namespace troupe::actors;

namespace {
class Nobody final : public caf::event_based_actor {
 public:
  using caf::event_based_actor::event_based_actor;
  caf::behavior make_behavior() override {
    return {[](int) {}};
  }
};
}  // namespace

TEST_CASE("an address names one incarnation") {
  caf::actor_system_config config;
  config.set("scheduler.policy", caf::atom("testing"));
  caf::actor_system system(config);
  ActorRegistry registry(NodeId{1}, 100);
  const auto first = system.spawn<Nobody>(), second = system.spawn<Nobody>();
  CHECK_FALSE(registry.find(Role::ROUTER));
  const auto incarnation = registry.put(Role::ROUTER, 0, first);
  capnp::MallocMessageBuilder message;
  auto address = message.initRoot<messages::ActorAddress>();
  registry.write_address(address, Role::ROUTER);
  CHECK(registry.resolve(address.asReader()) == first);
  CHECK(registry.put(Role::ROUTER, 0, second) > incarnation);
  CHECK_FALSE(registry.resolve(address.asReader()));  // of the one before
  CHECK(registry.find(Role::ROUTER) == second);
  registry.write_address(address, Role::ROUTER);
  address.setNode(2);
  CHECK_FALSE(registry.resolve(address.asReader()));
  registry.erase(Role::ROUTER, 0, first.id());
  CHECK(registry.find(Role::ROUTER));  // a successor stays
  registry.erase(Role::ROUTER, 0, second.id());
  CHECK_FALSE(registry.find(Role::ROUTER));
  for (const auto& actor : {first, second}) caf::anon_send_exit(actor, caf::exit_reason::kill);
  dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler()).run();

  SECTION("request table") {
    RequestTable table;
    CHECK(table.add(RequestId{1}, 0, first, 0, 3));
    CHECK(table.add(RequestId{2}, 1, first, 0, 1));
    CHECK_FALSE(table.add(RequestId{2}, 1, first, 4, 2));
    CHECK_FALSE(table.close(RequestId{1}, 1));
    CHECK_FALSE(table.close(RequestId{1}, 1));
    CHECK(table.requests_of(first.address()).size() == 2);
    CHECK(table.close_admission(RequestId{1}, 0));
    CHECK_FALSE(table.session(RequestId{1}));
    CHECK_FALSE(table.close_admission(RequestId{2}, 0));
    CHECK(table.close_admission(RequestId{2}, 4));
    CHECK(table.size() == 0);
    CHECK_FALSE(table.close(RequestId{9}, 0));
  }
}

TEST_CASE("a restart window opens again with time") {
  using std::chrono::seconds;
  base::RestartWindow window(2, seconds(60));
  const base::RestartWindow::TimePoint start{seconds(100)};
  CHECK(window.try_restart(start));
  CHECK(window.try_restart(start + seconds(10)));
  CHECK_FALSE(window.try_restart(start + seconds(59)));
  CHECK(window.try_restart(start + seconds(61)));
  CHECK_FALSE(window.try_restart(start + seconds(62)));
}

TEST_CASE("compute runs jobs in order, on one thread, and keeps none behind") {
  std::vector<int> order;
  std::atomic<int> dropped{0};
  {
    std::promise<void> first, started, go;  // they outlive the thread's jobs
    ComputeThread compute;
    for (int i = 0; i < 100; ++i) compute.post([&, i] { order.push_back(i); });
    compute.post([&] { first.set_value(); });
    first.get_future().wait();
    REQUIRE(order.size() == 100);
    for (int i = 0; i < 100; ++i) CHECK(order[static_cast<std::size_t>(i)] == i);
    compute.post([&] {
      started.set_value();
      go.get_future().wait();
    });
    started.get_future().wait();
    struct Counted {
      std::atomic<int>* count;
      ~Counted() { ++*count; }
    };
    compute.post([counted = std::make_shared<Counted>(Counted{&dropped}), &order] { order.push_back(-1); });
    dropped = 0;
    go.set_value();
  }
  CHECK(dropped == 1);
}

TEST_CASE("a job may hold the last handle of its compute thread") {
  std::promise<void> go, gone;
  struct Told {
    std::promise<void>* promise;
    ~Told() { promise->set_value(); }
  };
  auto compute = std::make_shared<ComputeThread>();
  compute->post([&go, compute, told = std::shared_ptr<Told>(new Told{&gone})]() mutable {
    go.get_future().wait();
    compute.reset();
  });
  compute.reset();
  go.set_value();
  gone.get_future().wait();  // the job is destroyed by the thread, which then ends
}
