// See tp_server.h.
#include "cluster/bench/tp_server.h"

#include "cluster/bench/shaped_link.h"
#include "cluster/printable.h"
#include "messages/error_reasons.h"

#include <cstdlib>
#include <fstream>

namespace troupe::cluster::bench {
namespace {

constexpr std::chrono::seconds kStartPatience{300}, kEndPatience{20};
constexpr std::string_view kReady = "Chat page: ";
constexpr const char* kSelf = "/proc/self/exe";

std::string quoted(const std::string& text) { return "\"" + text + "\""; }

ChatSettings settings() {
  ChatSettings out;
  out.model = "bench";
  out.ignore_eos = true;
  return out;
}

}  // namespace

std::string tp_cluster_text(const TpServerSpec& spec) {
  std::string out = "[cluster]\nname = " + quoted(spec.name) + "\n\n[serve]\nport = 0\nserved-model-name = \"bench\"\nthreads = 1\n";
  out += "kv-memory = \"256MiB\"\nwatchdog-ms = 600000\ncache-dir = " + quoted(spec.folder.string()) + "\n";
  out += "activations = " + quoted(spec.activations) + "\nkv-format = " + quoted(spec.kv_format) + "\nisa = " + quoted(spec.isa) + "\n";
  out += "step-trace = " + quoted((spec.folder / (spec.name + ".trace")).string()) + "\n";
  out += "\n[replica]\nmodel = " + quoted(spec.model.string()) + "\ntensor_parallel = " + std::to_string(TpServer::kRanks);
  out += "\ncodec = " + quoted(spec.codec) + "\noverlap = " + quoted(spec.overlap) + "\n";
  out += "\n[data_plane]\ntransport = \"ucx\"\ninterface = " + quoted(ShapedLink::kDataInterface) + "\n";
  out += std::string("\n[control]\naddress = ") + quoted(ShapedLink::kControlHost) + "\nport = 0\n";
  out += "\n[[node]]\nname = \"gateway\"\nroles = [\"gateway\"]\n";
  for (std::size_t rank = 0; rank < TpServer::kRanks; ++rank) {
    const std::string number = std::to_string(rank);
    out += "\n[[node]]\nname = \"end" + number + "\"\nroles = [\"mixed\"]\nranks = [" + number + "]\n";
    out += "namespace = " + quoted(ShapedLink::namespace_of(rank)) + "\ncores = [" + std::to_string(spec.cores[rank]) + "]\n";
  }
  return out;
}

TpServer::TpServer(RunningProgram program, ServerAddress address, std::filesystem::path base, const std::atomic<bool>& stop)
    : program_(std::move(program)),
      address_(std::move(address)),
      base_(std::move(base)),
      stop_(stop),
      client_(address_, settings(), stop) {}

Result<std::unique_ptr<TpServer>> TpServer::start(const TpServerSpec& spec, const std::atomic<bool>& stop) {
  const std::filesystem::path base = spec.folder / spec.name, file = base.string() + ".toml";
  if (!(std::ofstream(file, std::ios::trunc) << tp_cluster_text(spec)).flush())
    return make_error(ErrorClass::kStorageFailed, ErrorReason::kBadConfig, "cannot write " + file.string());
  auto program = RunningProgram::start({kSelf, "launch", file.string()}, base.string() + ".log");
  if (!program) return program.error();
  std::string line;
  while (!line.starts_with(kReady)) {
    auto next = program->next_line(kStartPatience, stop);
    if (!next) return next.error();
    line = std::move(*next);
  }
  std::string url = line.substr(kReady.size());
  while (url.ends_with('/')) url.pop_back();
  auto address = parse_url(url);
  if (!address) return address.error();
  return std::unique_ptr<TpServer>(new TpServer(std::move(*program), std::move(*address), base, stop));
}

Result<CallResult> TpServer::ask(const std::vector<TokenId>& prompt, std::uint32_t max_tokens) {
  CompletionCall call;
  call.prompt_ids = prompt;
  call.max_tokens = max_tokens;
  CallResult out;
  client_.start(call, [&](CallResult&& result) { out = std::move(result); });
  client_.run();
  if (out.good()) return out;
  return make_error(ErrorClass::kUnavailable, ErrorReason::kUnclassified, "a completion failed: " + printable(out.error));
}

double TpServer::metric(const std::string& name) const {
  auto answer = HttpStream::open(address_, "GET", "/metrics", "");
  if (!answer) return 0;
  for (;;) {
    auto line = answer->next_line();
    if (!line || !*line) return 0;
    const std::string& text = **line;
    const auto value = text.rfind(' ');
    if (text.starts_with(name) && value != std::string::npos) return std::strtod(text.c_str() + value, nullptr);
  }
}

std::string TpServer::codec() const {
  std::ifstream log(base_.string() + ".log");
  constexpr std::string_view kCodec = ", codec ";
  for (std::string line; std::getline(log, line);)
    if (const auto at = line.find(kCodec); line.starts_with("ranks ") && at != std::string::npos)
      return line.substr(at + kCodec.size(), line.find_first_of(" ,", at + kCodec.size()) - at - kCodec.size());
  return {};
}

void TpServer::end() { program_.stop(kEndPatience); }

}  // namespace troupe::cluster::bench
