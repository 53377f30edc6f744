// See start_report.h.
#include "cluster/start_report.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <unistd.h>
#include <utility>

namespace troupe::cluster {
namespace {

constexpr int kBarCells = 30;

std::string mebibytes(std::uint64_t bytes) {
  char text[40];
  const double mib = static_cast<double>(bytes) / (1 << 20);
  std::snprintf(text, sizeof text, mib < 10240 ? "%.0f MiB" : "%.1f GiB", mib < 10240 ? mib : mib / 1024);
  return text;
}

/// Of a cache tier below the device.
std::string tier_size(const char* where, std::uint64_t blocks, std::uint64_t block_bytes) {
  if (blocks == 0) return std::string("none in ") + where;
  return std::string(where) + " " + mebibytes(blocks * block_bytes) + " for " + std::to_string(blocks * kBlockTokens) + " tokens";
}

/// Every address of the machine is no address that a browser could open: its own is shown instead.
std::string openable(std::string url) {
  for (const auto& [all, own] : {std::pair{"//0.0.0.0:", "//127.0.0.1:"}, std::pair{"//[::]:", "//[::1]:"}})
    if (const auto at = url.find(all); at != std::string::npos) url.replace(at, std::strlen(all), own);
  return url;
}

bool is_loopback(const std::string& host) { return host.starts_with("127.") || host == "::1" || host == "localhost"; }

std::string access(const Options& options) {
  if (!options.api_key_file.empty()) return "API key needed";
  const bool open = std::ranges::any_of(options.hosts, [](const std::string& host) { return !is_loopback(host); });
  return open ? "no key needed: all who reach this machine may use it (--api-key-file)" : "no key needed (--api-key-file)";
}

}  // namespace

StartReport::StartReport() : terminal_(isatty(STDERR_FILENO) == 1) {}

void StartReport::progress(std::size_t done, std::size_t total) {
  std::lock_guard lock(mutex_);
  if (!terminal_ || total == 0) return;
  const auto filled = static_cast<int>(static_cast<double>(done) / static_cast<double>(total) * kBarCells);
  std::string bar;
  for (int i = 0; i < kBarCells; ++i) bar += i < filled ? "█" : "░";
  std::fprintf(stderr, "\rLoading %s %3.0f %%", bar.c_str(), 100.0 * static_cast<double>(done) / static_cast<double>(total));
  std::fflush(stderr);
  drawn_ = true;
}

void StartReport::erase_bar() {
  if (drawn_) std::fputs("\r\033[K", stderr);
  drawn_ = false;
}

void StartReport::clear() {
  std::lock_guard lock(mutex_);
  erase_bar();
}

void StartReport::line(const std::string& text) {
  std::lock_guard lock(mutex_);
  erase_bar();
  std::fprintf(stderr, "%s\n", text.c_str());
}

void StartReport::ready(const Options& options, const ReadyNode& node) {
  const auto& [model, facts, url, codec_kept] = node;
  std::lock_guard lock(mutex_);
  erase_bar();
  const std::uint64_t positions = std::uint64_t{facts.device_blocks} * kBlockTokens;
  std::fprintf(stderr, "model    %s (%s), context %u tokens\n", model.name.c_str(), mebibytes(model.file_bytes).c_str(),
               facts.context_tokens);
  std::fprintf(stderr, "compute  %s%s\n", facts.codec.empty() ? "" : "rank 0: ", facts.description.c_str());
  std::fprintf(stderr, "memory   weights %s%s, keys and values %s as %s for %llu tokens (%.1f full contexts; --kv-memory)\n",
               mebibytes(facts.weight_bytes).c_str(), facts.weights_cached ? " (packed earlier; --cache-dir)" : "",
               mebibytes(facts.kv_bytes).c_str(), options.kv_format.c_str(), static_cast<unsigned long long>(positions),
               facts.context_tokens == 0 ? 0.0 : static_cast<double>(positions) / facts.context_tokens);
  if (facts.host_blocks > 0 || facts.disk_blocks > 0)
    std::fprintf(stderr, "cache    %s (--host-cache), %s (--disk-cache)\n",
                 tier_size("memory", facts.host_blocks, facts.block_bytes).c_str(),
                 tier_size("disk", facts.disk_blocks, facts.block_bytes).c_str());
  if (!facts.codec.empty())
    std::fprintf(stderr, "ranks    tensor parallel %llu, stages %llu, codec %s%s, overlap %s\n",
                 static_cast<unsigned long long>(options.tensor_parallel), static_cast<unsigned long long>(options.pipeline_parallel),
                 facts.codec.c_str(), codec_kept ? " (measured earlier; --remeasure)" : (options.codec == "auto" ? " (measured)" : ""),
                 options.overlap.c_str());
  std::fprintf(stderr, "access   %s\n", access(options).c_str());
  std::fflush(stderr);
  std::printf("Chat page: %s/\n", openable(url).c_str());
  std::fflush(stdout);
}

}  // namespace troupe::cluster
