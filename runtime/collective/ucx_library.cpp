#include "runtime/collective/ucx_library.h"

#include "messages/error_reasons.h"

#include <dlfcn.h>
#include <cstdlib>
#include <string>

namespace troupe::collective {
namespace {
// UCX reads these when it is loaded, and offers no other way. Before main() nobody else looks at the environment; what the user has set
// stays. Nothing is said but what ends the process, no signal is handled, no code of the C library is rewritten, no thread serves a file
// system.
[[maybe_unused]] const bool told = [] {
  constexpr const char* kSettings[][2] = {{"UCX_LOG_LEVEL", "fatal"},
                                          {"UCX_HANDLE_ERRORS", "none"},
                                          {"UCX_ERROR_SIGNALS", ""},
                                          {"UCX_MEM_EVENTS", "n"},
                                          {"UCX_VFS_ENABLE", "n"}};
  for (const auto& [name, value] : kSettings) ::setenv(name, value, 0);
  return true;
}();

Result<UcxLibrary> load() {
  const auto missing = [](const std::string& detail) {
    return make_error(ErrorClass::kUnavailable, ErrorReason::kBadConfig,
                      "ranks in processes of their own need UCX 1.13 or later (package libucx0): " + detail, "transport");
  };
  void* library = ::dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return missing(::dlerror());
  UcxLibrary functions;
#define TROUPE_UCX_FIND(name)                                                    \
  functions.name = reinterpret_cast<decltype(&::name)>(::dlsym(library, #name)); \
  if (functions.name == nullptr) return missing("it has no " #name "()");
  TROUPE_UCX_FUNCTIONS(TROUPE_UCX_FIND)
#undef TROUPE_UCX_FIND
  return functions;
}
}  // namespace

Result<const UcxLibrary*> ucx_library() {
  static const Result<UcxLibrary> loaded = load();
  if (!loaded) return loaded.error();
  return &loaded.value();
}

}  // namespace troupe::collective
