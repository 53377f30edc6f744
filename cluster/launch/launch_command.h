// `troupe launch`: serves with the processes that a cluster file names, or checks that file.
#pragma once
#include "cluster/launch/cluster_check.h"
#include "cluster/options.h"

namespace troupe::cluster::launch {

/// The exit code: 1 for a file with faults.
int run_launch(const Options& given);

/// The file's options, with what the command line and the environment of `given` say instead.
Options overlaid(const Options& of_file, const Options& given);

}  // namespace troupe::cluster::launch
