#include "kernels/cpu/page_buffer.h"

#include <catch2/catch.hpp>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <vector>

using troupe::kernels::cpu::PageBuffer;

namespace {
constexpr std::size_t kPage = 4096;

std::size_t resident_pages(const PageBuffer& buffer, std::size_t offset, std::size_t bytes) {
  std::vector<unsigned char> pages(bytes / kPage);
  REQUIRE(mincore(buffer.data() + offset, bytes, pages.data()) == 0);
  return static_cast<std::size_t>(std::count_if(pages.begin(), pages.end(), [](unsigned char page) { return (page & 1) != 0; }));
}

bool system_can_populate() {
  void* page = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const bool can = madvise(page, kPage, MADV_POPULATE_WRITE) == 0 || errno != EINVAL;
  munmap(page, kPage);
  return can;
}
}  // namespace

TEST_CASE("pages are taken on demand, keep what they hold, and the others wait") {
  for (const std::size_t size : {std::size_t{64} * kPage, std::size_t{16} << 20}) {
    const PageBuffer buffer(size);
    CHECK(resident_pages(buffer, 0, size) == 0);
    buffer.data()[3] = 7;
    const std::size_t half = size / 2;
    buffer.make_resident(1, half - 1);
    CHECK(buffer.data()[3] == 7);
    buffer.make_resident(0, 0);
    if (!system_can_populate()) continue;
    CHECK(resident_pages(buffer, 0, half) == half / kPage);
    CHECK(resident_pages(buffer, half, size - half) == 0);
    buffer.make_resident(size - 1, 1);
    CHECK(resident_pages(buffer, size - kPage, kPage) == 1);
    CHECK(std::all_of(buffer.data() + 4, buffer.data() + size, [](std::uint8_t byte) { return byte == 0; }));
  }
}
