#include "tests/kernels/conformance/guarded.h"

#include <cstdint>
#include <cstdlib>
#include <new>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define TROUPE_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TROUPE_ASAN 1
#endif
#endif

namespace troupe::kernels::testing {

#ifdef TROUPE_ASAN

GuardedBytes::GuardedBytes(std::size_t bytes, Edge) {
  if (posix_memalign(&data_, 64, bytes) != 0) throw std::bad_alloc();
  std::memset(data_, 0xff, bytes);
}
GuardedBytes::~GuardedBytes() { std::free(data_); }

#else

GuardedBytes::GuardedBytes(std::size_t bytes, Edge edge) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t inner = (bytes + page - 1) / page * page;
  mapped_ = inner + 2 * page;
  mapping_ = mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping_ == MAP_FAILED) throw std::bad_alloc();
  auto* first = static_cast<std::uint8_t*>(mapping_) + page;
  if (inner > 0 && mprotect(first, inner, PROT_READ | PROT_WRITE) != 0) {
    munmap(mapping_, mapped_);
    throw std::bad_alloc();
  }
  data_ = edge == Edge::kEnd ? first + inner - bytes : first;
  if (bytes > 0) std::memset(data_, 0xff, bytes);
}
GuardedBytes::~GuardedBytes() { munmap(mapping_, mapped_); }

#endif

}  // namespace troupe::kernels::testing
