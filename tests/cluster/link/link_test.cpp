#include "cluster/link/link_actor.h"
#include "tests/support/captured_log.h"

#include <caf/all.hpp>
#include <caf/io/middleman.hpp>
#include <catch2/catch.hpp>

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <fstream>
#include <future>
#include <thread>
#include <unistd.h>

using namespace std::chrono_literals;
using troupe::cluster::link::CertificateMaker;
using troupe::cluster::link::connect_link;
using troupe::cluster::link::LinkListener;
using troupe::cluster::link::LinkSession;
using troupe::cluster::link::LinkTls;
using troupe::cluster::link::NodeCertificate;
using troupe::test::CapturedLog;
namespace link_ns = troupe::cluster::link;

namespace {

struct Config : caf::actor_system_config {
  Config() {
    set("scheduler.max-threads", std::size_t{1});
    set("scheduler.policy", caf::atom("sharing"));
    link_ns::enable_link(*this, 100ms, 5000ms);
  }
};

struct TestNode {
  TestNode(const NodeCertificate& certificate, const std::string& peer, bool listens, std::chrono::milliseconds handshake = 5000ms) {
    link_ns::LinkActorOptions options{LinkTls::make(certificate).value(), nullptr, peer, 2000ms, names};
    if (listens) options.listener = LinkListener::open("127.0.0.1", 0, options.tls, {handshake, 4}).value();
    if (listens) port = options.listener->port();
    link = link_ns::spawn_link(system, std::move(options));
  }
  ~TestNode() {
    caf::anon_send_exit(door, caf::exit_reason::kill);  // else the system would wait for it, however a test ends
    caf::anon_send_exit(link, caf::exit_reason::kill);
  }
  Config config;
  caf::actor_system system{config};
  std::shared_ptr<link_ns::PeerNames> names = std::make_shared<link_ns::PeerNames>();
  caf::actor link, door;
  std::uint16_t port = 0;
};

/// Null where it does not come.
caf::actor door_of(TestNode& node, std::uint16_t port) {
  caf::scoped_actor self(node.system);
  caf::actor door;
  self->request(node.link, 3s, caf::connect_atom::value, std::string("127.0.0.1"), port)
      .receive([&](const caf::node_id&, const caf::strong_actor_ptr& actor,
                   const std::set<std::string>&) { door = caf::actor_cast<caf::actor>(actor); },
               [](const caf::error&) {});
  return door;
}

/// Answers a number with the next one, and a handle with the names in the certificate of its node.
caf::actor spawn_door(TestNode& node) {
  const auto behaviour = [](caf::event_based_actor* self, const troupe::actors::AskPeerNames& ask) -> caf::behavior {
    return {[](int number) { return number + 1; },
            [self, ask](const caf::actor& peer) {
              auto promise = self->make_response_promise();
              ask(*self, peer,
                  [promise](const std::vector<std::string>& names) mutable { promise.deliver(names.empty() ? "" : names[0]); });
              return promise;
            }};
  };
  node.door = node.system.spawn(behaviour, link_ns::peer_names_of(node.link, node.names));
  return node.door;
}

std::size_t resident_bytes() {
  std::size_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

/// A header of CAF's protocol that names a message of 1.5 GiB.
std::array<char, 32> giant_header() {
  std::array<char, 32> header{};
  header[0] = 1;     // client handshake
  header[4] = 0x60;  // of 0x60000000 bytes, big-endian
  return header;
}

int plain_connection(std::uint16_t port) {
  auto connection = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(::connect(connection, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  return connection;
}

bool closed_by_peer(int connection) {
  timeval patience{10, 0};
  setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  char bytes[256];
  for (;;) {
    const auto count = ::recv(connection, bytes, sizeof bytes, 0);
    if (count == 0 || (count < 0 && errno == ECONNRESET)) return true;
    if (count < 0) return false;
  }
}

}  // namespace

TEST_CASE("two nodes talk over the link, and each knows the other's name", "[link]") {
  const auto maker = CertificateMaker::make("test").value();
  TestNode gateway(maker.issue("gateway").value(), "", true);
  const auto door = spawn_door(gateway);
  REQUIRE(link_ns::publish_door(gateway.system, gateway.link, door));
  {
    TestNode rank(maker.issue("rank0").value(), "gateway", false);
    const auto remote = door_of(rank, gateway.port);
    REQUIRE(remote);
    caf::scoped_actor self(rank.system);
    self->request(remote, 5s, 41).receive([](int number) { CHECK(number == 42); }, [](const caf::error&) { FAIL("no answer"); });
    self->request(remote, 5s, caf::actor(self))
        .receive([](const std::string& name) { CHECK(name == "rank0"); }, [](const caf::error&) { FAIL("no answer"); });
    CHECK(rank.names->find("127.0.0.1:" + std::to_string(gateway.port)) == std::vector<std::string>{"gateway"});
  }
  caf::anon_send_exit(door, caf::exit_reason::user_shutdown);
}

TEST_CASE("a node that ends is noticed by who monitors its actors", "[link]") {
  const auto maker = CertificateMaker::make("test").value();
  TestNode gateway(maker.issue("gateway").value(), "", true);
  std::promise<void> lost;
  const auto watch = [](caf::event_based_actor* self, std::promise<void>* told) -> caf::behavior {
    self->set_down_handler([told](const caf::down_msg&) { told->set_value(); });
    return {[self](const caf::actor& peer) {
      self->monitor(peer);
      return true;
    }};
  };
  const auto watcher = gateway.system.spawn(watch, &lost);
  REQUIRE(link_ns::publish_door(gateway.system, gateway.link, watcher));
  {
    TestNode rank(maker.issue("rank0").value(), "gateway", false);
    const auto watched = [](caf::event_based_actor*, int) -> caf::behavior { return {[](int) {}}; };
    const auto peer = rank.system.spawn(watched, 0);
    const auto remote = door_of(rank, gateway.port);
    REQUIRE(remote);
    caf::scoped_actor self(rank.system);
    self->request(remote, 5s, peer).receive([](bool) {}, [](const caf::error&) { FAIL("no answer"); });
    caf::anon_send_exit(peer, caf::exit_reason::user_shutdown);
  }
  CHECK(lost.get_future().wait_for(10s) == std::future_status::ready);
  caf::anon_send_exit(watcher, caf::exit_reason::user_shutdown);
}

TEST_CASE("a node connects to no other name than it was told", "[link]") {
  CapturedLog log;
  const auto maker = CertificateMaker::make("test").value();
  TestNode gateway(maker.issue("rank1").value(), "", true);
  const auto connected = connect_link(LinkTls::make(maker.issue("rank0").value()).value(), "127.0.0.1", gateway.port, "gateway", 2s);
  REQUIRE_FALSE(connected);
  CHECK(connected.error().client_text.find("does not name gateway") != std::string::npos);
}

TEST_CASE("strangers are refused with a reason, and cost no memory", "[link]") {
  CapturedLog log;
  const auto maker = CertificateMaker::make("test").value(), foreign = CertificateMaker::make("test").value();
  TestNode gateway(maker.issue("gateway").value(), "", true, 2000ms);
  const auto door = spawn_door(gateway);
  REQUIRE(link_ns::publish_door(gateway.system, gateway.link, door));
  const auto before = resident_bytes();

  SECTION("a certificate of another authority") {
    auto stranger = foreign.issue("rank0").value();
    stranger.authority = maker.issue("rank0")->authority;  // it believes us, but we do not believe it
    const auto connected = connect_link(LinkTls::make(stranger).value(), "127.0.0.1", gateway.port, "gateway", 2s);
    CHECK(log.wait_for("certificate verify failed"));  // TLS 1.3: the client's side has ended well before
  }
  SECTION("no certificate") {
    const troupe::base::TlsContextPointer context(SSL_CTX_new(TLS_method()));
    const troupe::base::TlsPointer tls(SSL_new(context.get()));
    const int connection = plain_connection(gateway.port);
    SSL_set_fd(tls.get(), connection);
    char byte;
    if (SSL_connect(tls.get()) == 1) CHECK(SSL_read(tls.get(), &byte, 1) <= 0);
    CHECK(log.wait_for("peer did not return a certificate"));
    ::close(connection);
  }
  SECTION("CAF's protocol in plain text, with a header that names 1.5 GiB") {
    const int connection = plain_connection(gateway.port);
    const auto header = giant_header();
    CHECK(::send(connection, header.data(), header.size(), MSG_NOSIGNAL) == 32);
    CHECK(closed_by_peer(connection));
    CHECK(log.wait_for("link_refused"));
    ::close(connection);
  }
  SECTION("nothing at all") {
    const int connection = plain_connection(gateway.port);
    CHECK(closed_by_peer(connection));
    CHECK(log.wait_for("no handshake within 2000 ms"));
    ::close(connection);
  }
  SECTION("more at a time than there is room for") {
    std::vector<int> connections;
    for (int i = 0; i < 40; ++i) connections.push_back(plain_connection(gateway.port));
    CHECK(log.wait_for("too many handshakes under way"));
    for (const int connection : connections) ::close(connection);
  }
  SECTION("a member whose header names 1.5 GiB") {
    auto member = connect_link(LinkTls::make(maker.issue("rank0").value()).value(), "127.0.0.1", gateway.port, "gateway", 2s);
    REQUIRE(member);
    const auto header = giant_header();
    std::size_t count = 0;
    REQUIRE(member->session->write(header.data(), header.size(), count) == LinkSession::State::kOk);
    CHECK(log.wait_for("a message of 1610612736 bytes"));
    CHECK(closed_by_peer(member->socket.get()));
  }
  CHECK(resident_bytes() < before + (16 << 20));
  // And a member is still let in.
  TestNode rank(maker.issue("rank0").value(), "gateway", false);
  CHECK(door_of(rank, gateway.port));
  caf::anon_send_exit(door, caf::exit_reason::user_shutdown);
}

TEST_CASE("a certificate travels as one text", "[link]") {
  const auto made = CertificateMaker::make("test")->issue("rank0").value();
  const auto parsed = NodeCertificate::parse(made.bundle());
  REQUIRE(parsed);
  CHECK(parsed->certificate == made.certificate);
  CHECK(parsed->authority == made.authority);
  CHECK(LinkTls::make(*parsed));
  CHECK_FALSE(NodeCertificate::parse(made.certificate));
  CHECK_FALSE(NodeCertificate::parse("no certificate"));
  auto mixed = made;
  mixed.key = CertificateMaker::make("test")->issue("rank0")->key;
  CHECK_FALSE(LinkTls::make(mixed));
}
