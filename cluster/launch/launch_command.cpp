// See launch_command.h.
#include "cluster/launch/launch_command.h"

#include "cluster/launch/cluster_key_table.h"
#include "cluster/option_table.h"
#include "cluster/serve_command.h"
#include "cluster/terminal.h"
#include "runtime/base/log.h"

#include <cstdio>

namespace troupe::cluster::launch {

Options overlaid(const Options& of_file, const Options& given) {
  Options options = of_file;
  for (const OptionRow& row : option_table()) {
    const auto source = given.sources.find(row.name);
    if (source == given.sources.end()) continue;
    copy_option(options, given, row);
    options.sources[std::string(row.name)] = source->second;
  }
  return options;
}

int run_launch(const Options& given) {
  if (given.list_keys) {
    std::fputs(cluster_keys_markdown().c_str(), stdout);
    return 0;
  }
  if (given.cluster_file.empty()) return print_fault("no cluster file is named, for example: troupe launch examples/two_shards.toml");
  Faults faults;
  const ClusterFile file = read_cluster_file(given.cluster_file, faults);
  const Options options = overlaid(file.options, given);
  CheckedCluster checked;
  const bool readable = !file.nodes.empty() || faults.empty();  // else all the rest would be missing, too
  if (readable) checked = check_cluster(file, options, this_host());
  faults.insert(faults.end(), checked.faults.begin(), checked.faults.end());
  for (const std::string& fault : faults) std::fprintf(stderr, "%s\n", fault.c_str());
  if (!faults.empty())
    return print_fault(std::to_string(faults.size()) + (faults.size() == 1 ? " fault in " : " faults in ") + given.cluster_file +
                       "; nothing was started");
  const std::string summary = cluster_summary(checked, options);
  if (given.check_only) {
    std::fputs(summary.c_str(), stdout);
    return 0;
  }
  base::set_log_level(options.log_level);
  base::set_log_format(options.log_format);
  std::fputs(summary.c_str(), stderr);
  return serve_cluster(options, checked.plan);
}

}  // namespace troupe::cluster::launch
