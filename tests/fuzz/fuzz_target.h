// What every fuzz target includes. One source, two uses: a libFuzzer program (./dev fuzz), and a function of fuzz_replay_test, which runs
// the corpora in ./dev test without clang. A target takes any bytes, and ends the process (or throws) where a promise is broken.
#pragma once
#include <cstddef>
#include <cstdint>

#ifdef TROUPE_FUZZER
#define FUZZ_TARGET(name) extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
#else
#define FUZZ_TARGET(name) int fuzz_##name(const std::uint8_t* data, std::size_t size)
#endif
