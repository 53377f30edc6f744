// See cache_servers.h.
#include "cluster/bench/cache_servers.h"

#include "cluster/node_options.h"
#include "messages/error_reasons.h"
#include "runtime/base/descriptor.h"
#include "runtime/base/metric_names.h"

#include <chrono>
#include <cstdlib>
#include <fcntl.h>
#include <optional>
#include <thread>
#include <unistd.h>

namespace troupe::cluster::bench {
namespace {

constexpr std::chrono::milliseconds kLook{50};
constexpr int kQuietLooks = 3;  // blocks of the last answer are told a moment after it
constexpr double kMostSeconds = 30;

/// Sum over the tiers of the blocks that still wait to be written down; nullopt: the server does not tell.
std::optional<double> unwritten(const HttpScenarios& http) {
  auto answer = HttpStream::open(http.server(), "GET", "/metrics", "");
  if (!answer) return std::nullopt;
  double sum = 0;
  for (;;) {
    auto line = answer->next_line();
    if (!line) return std::nullopt;
    if (!*line) return sum;
    const std::string& text = **line;
    const auto value = text.rfind(' ');
    if (text.starts_with(base::metric::kTierUnwritten) && value != std::string::npos) sum += std::strtod(text.c_str() + value, nullptr);
  }
}

Error no_folder(const std::string& why) {
  return make_error(ErrorClass::kStorageFailed, ErrorReason::kBadConfig, "suite cache keeps blocks on disk: " + why, "cache-dir");
}

}  // namespace

bool CacheServer::wait_until_written(const std::atomic<bool>& stop) const {
  int quiet = 0;
  for (const double start = now_seconds(); now_seconds() - start < kMostSeconds && !stop.load();) {
    std::this_thread::sleep_for(kLook);
    const auto left = unwritten(http);
    if (!left) return false;
    quiet = *left == 0 ? quiet + 1 : 0;
    if (quiet == kQuietLooks) return true;
  }
  return false;
}

CacheServers::CacheServers(const BenchOptions& options, const std::atomic<bool>& stop) : options_(options), stop_(stop) {}

CacheServers::~CacheServers() {
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

Status CacheServers::prepare() {
  if (foreign()) return ok_status();
  const std::filesystem::path parent = cache_folder(options_.options, process_environment);
  if (parent.empty()) return no_folder("give a folder with --cache-dir");
  std::error_code fault;
  std::filesystem::create_directories(parent, fault);
  std::string name = (parent / "bench-XXXXXX").string();
  if (fault || mkdtemp(name.data()) == nullptr) return no_folder("--cache-dir " + parent.string() + " cannot be written");
  folder_ = name;
  // Only a shortcut: without the links the weights are packed once more.
  for (const auto& entry : std::filesystem::directory_iterator(parent, fault)) {
    const auto suffix = entry.path().extension();
    if (suffix == ".packed" || suffix == ".content")
      std::filesystem::create_hard_link(entry.path(), folder_ / entry.path().filename(), fault);
  }
  return ok_status();
}

void CacheServers::leave_to_the_disk() const {
  std::error_code fault;
  for (std::filesystem::recursive_directory_iterator at(folder_, fault), end; !fault && at != end; at.increment(fault)) {
    if (!at->is_regular_file(fault) || at->path().extension() == ".packed") continue;
    const base::Descriptor file(::open(at->path().c_str(), O_RDONLY | O_CLOEXEC));
    if (!file || ::fdatasync(file.get()) != 0) continue;
    ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
  }
}

Result<std::unique_ptr<CacheServer>> CacheServers::start(const TierBytes& tiers, bool same_prompts) {
  std::unique_ptr<EmbeddedNode> node;
  std::string url = options_.options.url;
  if (!foreign()) {
    Options own = options_.options;
    own.kv_memory = tiers.device;
    own.host_cache = tiers.host;
    own.disk_cache = tiers.disk;
    own.cache_dir = folder_.string();
    if (tiers.slow_disk_mb_s > 0) own.fault = "slow-disk:" + std::to_string(tiers.slow_disk_mb_s);
    auto started = EmbeddedNode::start(own);
    if (!started) return started.error();
    node = std::move(*started);
    url = node->url();
  }
  const auto address = parse_url(url);
  if (!address) return address.error();
  ChatSettings settings;
  settings.api_key = options_.options.api_key;
  settings.ignore_eos = options_.options.ignore_eos || !foreign();
  if (!same_prompts) ++seed_;
  auto server = std::unique_ptr<CacheServer>(
      new CacheServer{std::move(node), HttpScenarios(*address, settings, options_.sizes, options_.seed + 1'000'003 * seed_, stop_)});
  if (auto status = server->http.prepare(); !status) return status.error();
  return server;
}

}  // namespace troupe::cluster::bench
