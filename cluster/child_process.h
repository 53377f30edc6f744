// One fork and exec, for ProcessKeeper. On the thread that forks; nothing between fork and exec takes a lock or memory.
#pragma once
#include "cluster/process_keeper.h"

#include <string>

namespace troupe::cluster {

struct StartedProcess {
  int pid = 0;                       // 0: failed, `why` says why
  base::Descriptor process, output;  // a pidfd; the end of a pipe, not blocking
  std::string why;
};
StartedProcess start_process(const ProcessSpec& spec);

}  // namespace troupe::cluster
