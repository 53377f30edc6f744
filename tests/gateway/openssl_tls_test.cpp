// TLS with OpenSSL: what clients may speak, certificates that cannot be loaded, and new ones while connections run.
#include "gateway/openssl_tls.h"
#include "messages/error_reasons.h"
#include "tests/gateway/running_gateway.h"
#include "tests/gateway/test_certificate.h"
#include "tests/gateway/test_client.h"

#include <arpa/inet.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include <fstream>
#include <sstream>

using namespace troupe;
using namespace troupe::gateway;

namespace {

/// A blocking TLS client.
class TlsClient {
 public:
  struct Wishes {
    int version = 0;   // the one version it speaks; 0: any
    std::string alpn;  // one protocol to offer
  };
  TlsClient(std::uint16_t port, const Wishes& wishes)
      : socket_(::socket(AF_INET, SOCK_STREAM, 0)), context_(SSL_CTX_new(TLS_client_method())) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    timeval patience{10, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) throw std::runtime_error("cannot connect");
    SSL_CTX_set_security_level(context_, 0);  // or this client would not even try old versions
    if (wishes.version != 0) {
      SSL_CTX_set_min_proto_version(context_, wishes.version);
      SSL_CTX_set_max_proto_version(context_, wishes.version);
    }
    session_ = SSL_new(context_);
    if (!wishes.alpn.empty()) {
      std::string offer = static_cast<char>(wishes.alpn.size()) + wishes.alpn;
      SSL_set_alpn_protos(session_, reinterpret_cast<const unsigned char*>(offer.data()), static_cast<unsigned>(offer.size()));
    }
    SSL_set_fd(session_, socket_);
    connected_ = SSL_connect(session_) == 1;
  }
  explicit TlsClient(std::uint16_t port) : TlsClient(port, Wishes{}) {}
  ~TlsClient() {
    SSL_free(session_);
    SSL_CTX_free(context_);
    ::close(socket_);
  }
  TlsClient(const TlsClient&) = delete;
  TlsClient& operator=(const TlsClient&) = delete;

  bool connected() const { return connected_; }
  std::string name_of_server() const {
    std::unique_ptr<X509, decltype(&X509_free)> certificate(SSL_get1_peer_certificate(session_), X509_free);
    char name[100] = "";
    X509_NAME_get_text_by_NID(X509_get_subject_name(certificate.get()), NID_commonName, name, sizeof name);
    return name;
  }
  std::string alpn() const {
    const unsigned char* chosen = nullptr;
    unsigned size = 0;
    SSL_get0_alpn_selected(session_, &chosen, &size);
    return std::string(reinterpret_cast<const char*>(chosen), size);
  }
  void send(std::string_view bytes) {
    if (SSL_write(session_, bytes.data(), static_cast<int>(bytes.size())) <= 0) throw std::runtime_error("cannot send");
  }
  /// Everything up to and with `end`.
  std::string read_until(std::string_view end) {
    std::string out;
    char byte = 0;
    while (out.size() < end.size() || out.compare(out.size() - end.size(), end.size(), end) != 0) {
      if (SSL_read(session_, &byte, 1) != 1) throw std::runtime_error("closed after: " + out);
      out += byte;
    }
    return out;
  }
  std::string get(const std::string& path) {
    send("GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
    return read_until("}");
  }
  /// Whether the peer says goodbye properly.
  bool closed() {
    char byte = 0;
    return SSL_read(session_, &byte, 1) == 0 && SSL_get_error(session_, 0) == SSL_ERROR_ZERO_RETURN;
  }

 private:
  int socket_;
  SSL_CTX* context_;
  SSL* session_ = nullptr;
  bool connected_ = false;
};

GatewayOptions over(const TestCertificate& certificate) {
  GatewayOptions options;
  auto tls = load_tls(certificate.certificate(), certificate.key());
  REQUIRE(tls.ok());
  options.tls = *tls;
  return options;
}

std::string content(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("https and wss on one port, TLS 1.2 and 1.3, nothing older, and HTTP/1.1 only") {
  TestCertificate certificate;
  RunningGateway running(over(certificate));
  CHECK(running.gateway.url().find("https://127.0.0.1:") == 0);
  for (int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    TlsClient client(running.port(), {version, "http/1.1"});
    REQUIRE(client.connected());
    CHECK(client.alpn() == "http/1.1");
    for (int i = 0; i < 3; i++) CHECK(client.get("/health").find("HTTP/1.1 200 OK") == 0);
    client.send("GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    client.read_until("}");
    CHECK(client.closed());
  }
  CHECK_FALSE(TlsClient(running.port(), {TLS1_1_VERSION, ""}).connected());
  CHECK_FALSE(TlsClient(running.port(), {0, "h2"}).connected());
  TlsClient socket(running.port());
  socket.send(
      "GET /v1/responses HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
      "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n");
  CHECK(socket.read_until("\r\n\r\n").find("HTTP/1.1 101") == 0);
  socket.send(std::string("\x89\x80\0\0\0\0", 6));  // a ping
  CHECK(socket.read_until(std::string("\x8a\0", 2)).size() == 2);
}

TEST_CASE("a body over many records, both ways") {
  TestCertificate certificate;
  RunningGateway running(over(certificate));
  TlsClient client(running.port());
  const std::string body =
      R"({"model":"tiny","stream":true,"messages":[{"role":"user","content":"words=2000 )" + std::string(900'000, 'x') + "\"}]}";
  for (int i = 0; i < 2; i++) {
    client.send("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
                body);
    auto answer = client.read_until("data: [DONE]\n\n\r\n0\r\n\r\n");
    CHECK(answer.size() > 200'000);
  }
}

TEST_CASE("plain HTTP and noise on the TLS port are closed without an answer in plain text") {
  TestCertificate certificate;
  RunningGateway running(over(certificate));
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), std::string(300, '\x16'), std::string(4000, '\0')}) {
    TestClient client(running.port());
    client.send(bytes);
    CHECK(client.closed());
    CHECK_THROWS(client.read_until("HTTP/1"));
  }
  CHECK(TlsClient(running.port()).get("/health").find("200") != std::string::npos);
}

TEST_CASE("a new certificate is for new connections; old ones go on") {
  TestCertificate first("first"), second("second");
  RunningGateway running(over(first));
  TlsClient old(running.port());
  CHECK(old.name_of_server() == "first");
  CHECK(old.get("/health").find("200") != std::string::npos);
  auto renewed = load_tls(second.certificate(), second.key());
  REQUIRE(renewed.ok());
  running.gateway.set_tls(*renewed);
  CHECK(eventually([&] { return TlsClient(running.port()).name_of_server() == "second"; }));
  CHECK(old.get("/health").find("200") != std::string::npos);
}

TEST_CASE("certificates that cannot be used are named, with the reason") {
  TestCertificate good, other, locked("localhost", "secret"), old("localhost", "", true);
  auto refused = [](const std::string& certificate, const std::string& key, const std::string& option, const std::string& word) {
    auto tls = load_tls(certificate, key);
    REQUIRE_FALSE(tls.ok());
    INFO(tls.error().client_text);
    CHECK(tls.error().parameter == option);
    CHECK(tls.error().client_text.find("--" + option) == 0);
    CHECK(tls.error().client_text.find(word) != std::string::npos);
  };
  refused("/no/such.pem", good.key(), "tls-cert", "cannot be read");
  refused(good.certificate(), "/no/such.pem", "tls-key", "cannot be read");
  refused("/", good.key(), "tls-cert", "is no plain file");
  refused("/dev/zero", good.key(), "tls-cert", "is no plain file");
  refused("/dev/null", good.key(), "tls-cert", "is no plain file");
  refused(good.key(), good.certificate(), "tls-cert", "no certificate");
  refused(good.certificate(), good.certificate(), "tls-key", "no private key");
  refused(good.certificate(), other.key(), "tls-key", "not the key");
  refused(locked.certificate(), locked.key(), "tls-key", "passphrase");
  const auto chain = (good.folder() / "chain.pem").string();
  std::ofstream(chain) << content(good.certificate()) << content(other.certificate());
  CHECK(load_tls(chain, good.key()).ok());
  std::ofstream(chain) << content(good.certificate()) << content(other.certificate()).substr(0, 300);
  refused(chain, good.key(), "tls-cert", "damaged");
  CHECK(load_tls(old.certificate(), old.key()).ok());  // with a warning: a wrong clock should not keep a server down
}
