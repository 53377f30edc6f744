// The files of the chat page, built into the binary by page/embed.cmake. Immutable, any thread.
#pragma once
#include <span>
#include <string_view>

namespace troupe::gateway {

struct PageFile {
  std::string_view path;  // "/app.js"
  std::string_view type;  // media type
  std::string_view content;
};
std::span<const PageFile> page_files();

}  // namespace troupe::gateway
