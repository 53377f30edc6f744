// The codec that was measured for a model on a group of ranks, kept from start to start: it is part of the arithmetic, so it must not
// change with the weather of each start. A record in the cache folder; one that is damaged or of another group is none. Main thread.
#pragma once
#include "cluster/cluster_plan.h"
#include "cluster/options.h"
#include "messages/ids.h"
#include "runtime/base/cache_folder.h"

#include <optional>
#include <string>

namespace troupe::cluster::launch {

class StoredCodec {
 public:
  /// What a measurement depends on: model, arithmetic, who shares it over which network, and the CPU.
  StoredCodec(base::CacheFolder folder, const Hash128& model_content, const ClusterPlan& plan, const Options& options,
              const std::string& cpu);
  /// Row of the codec table; none: to be measured.
  std::optional<std::string> find() const;
  Status keep(const std::string& codec) const;
  const std::string& file_name() const { return name_; }

 private:
  base::CacheFolder folder_;
  std::string name_;  // parallel-<hash>
};

/// As /proc/cpuinfo names it, for the hash.
std::string cpu_description();

}  // namespace troupe::cluster::launch
