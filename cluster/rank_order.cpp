#include "cluster/rank_order.h"

#include "messages/error_reasons.h"

#include <charconv>
#include <map>
#include <sstream>

namespace troupe::cluster {
namespace {

constexpr char kEnd[] = "certificate";  // the line before the bundle

template <class Number>
bool read_number(const std::string& text, Number& number) {
  const auto end = text.data() + text.size();
  return std::from_chars(text.data(), end, number).ptr == end && !text.empty();
}

}  // namespace

std::string RankOrder::text() const {
  std::ostringstream out;
  out << "cluster=" << cluster << "\ndigest_high=" << digest.high << "\ndigest_low=" << digest.low << "\nnode=" << node
      << "\nreplica=" << replica << "\nrank=" << rank << "\nincarnation=" << incarnation << "\ndoor_host=" << door_host
      << "\ndoor_port=" << door_port << "\ndoor_node=" << door_node << "\nheartbeat_ms=" << heartbeat.count()
      << "\nsilence_ms=" << silence.count() << "\nlog_level=" << log_level << "\nlog_format=" << log_format << "\nfault=" << fault << "\n"
      << kEnd << "\n"
      << certificate.bundle();
  return out.str();
}

Result<RankOrder> RankOrder::parse(const std::string& text) {
  std::map<std::string, std::string> values;
  std::istringstream in(text);
  std::string line;
  while (std::getline(in, line) && line != kEnd)
    if (const auto equals = line.find('='); equals != std::string::npos) values[line.substr(0, equals)] = line.substr(equals + 1);
  RankOrder order;
  long long heartbeat_ms = 0, silence_ms = 0;
  const bool numbers = read_number(values["digest_high"], order.digest.high) && read_number(values["digest_low"], order.digest.low) &&
                       read_number(values["replica"], order.replica) && read_number(values["rank"], order.rank) &&
                       read_number(values["incarnation"], order.incarnation) && read_number(values["door_port"], order.door_port) &&
                       read_number(values["heartbeat_ms"], heartbeat_ms) && read_number(values["silence_ms"], silence_ms);
  if (!numbers || values["node"].empty() || values["door_host"].empty())
    return make_error(ErrorClass::kInvalidRequest, ErrorReason::kBadConfig, "what a rank process is told at its start is not complete");
  order.cluster = values["cluster"];
  order.node = values["node"];
  order.door_host = values["door_host"];
  order.door_node = values["door_node"];
  order.heartbeat = std::chrono::milliseconds(heartbeat_ms);
  order.silence = std::chrono::milliseconds(silence_ms);
  order.log_level = values["log_level"];
  order.log_format = values["log_format"];
  order.fault = values["fault"];
  auto certificate = link::NodeCertificate::parse(std::string(std::istreambuf_iterator<char>(in), {}));
  if (!certificate) return certificate.error();
  order.certificate = std::move(*certificate);
  return order;
}

}  // namespace troupe::cluster
