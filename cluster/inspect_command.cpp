// See inspect_command.h.
#include "cluster/inspect_command.h"

#include "cluster/model_facts.h"
#include "cluster/terminal.h"

#include <cstdio>
#include <fstream>

namespace troupe::cluster {

int run_inspect(const Options& options) {
  if (options.model.empty()) return print_fault("no file is named, for example: troupe inspect model.gguf");
  const auto facts = read_model_facts(options.model);
  if (!facts) return print_fault(facts.error().client_text);
  if (options.json_file.empty()) {
    std::fputs(facts_text(*facts).c_str(), stdout);
  } else if (options.json_file == "-") {
    std::fputs(facts_json(*facts).c_str(), stdout);
  } else {
    std::ofstream file(options.json_file, std::ios::binary);
    if (!(file << facts_json(*facts)).flush()) return print_fault("--json: " + options.json_file + " cannot be written");
  }
  if (std::fflush(stdout) != 0) return print_fault("standard output cannot be written");
  return facts->problems.empty() ? 0 : 1;
}

}  // namespace troupe::cluster
