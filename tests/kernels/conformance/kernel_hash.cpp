// kernel_hash: runs every conformance case on every level of this machine and prints "<hash> <level> <op>, <shape>", one line a case.
// Builds by two compilers must print the same lines (two_compilers.sh), and all levels the same hashes.
#include "tests/kernels/conformance/cases.h"

#include <cinttypes>
#include <cstdio>

using namespace troupe::kernels;
using namespace troupe::kernels::testing;

int main() {
  bool equal = true;
  for (const Case& c : all_cases()) {
    std::uint64_t reference = 0;
    const std::vector<cpu::Isa> levels = cpu::available_isas();
    for (auto level = levels.rbegin(); level != levels.rend(); ++level) {  // the reference first
      Record record;
      c.run(cpu::kernels_for(*level), {Edge::kEnd, false}, record);
      const std::uint64_t hash = record.hash();
      if (level == levels.rbegin()) reference = hash;
      std::printf("%016" PRIx64 " %s %s, %s\n", hash, std::string(cpu::isa_name(*level)).c_str(), c.op.c_str(), c.shape.c_str());
      if (hash != reference) {
        std::fprintf(stderr, "kernel_hash: %s: level %s differs from the reference\n", c.op.c_str(),
                     std::string(cpu::isa_name(*level)).c_str());
        equal = false;
      }
    }
  }
  return equal ? 0 : 1;
}
