#!/bin/bash
# Builds kernel_hash with clang++ beside the build folder's own compiler and compares what the two programs print: no result may depend
# on the compiler. Usage: two_compilers.sh SOURCE_FOLDER BUILD_FOLDER. Exit code 77: there is no clang++ here.
set -euo pipefail
readonly source=$1 build=$2
readonly other=$build/clang

if ! command -v clang++ >/dev/null; then
  echo "two_compilers: SKIPPED, clang++ is not installed (./dev test --long installs it)"
  exit 77
fi
mkdir -p "$other"
cmake -S "$source" -B "$other" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ -DTROUPE_ACTORS=OFF \
  >"$other/configure.log" || { cat "$other/configure.log"; exit 1; }
ninja -C "$other" kernel_hash

"$build/kernel_hash" >"$other/hashes.own"
"$other/kernel_hash" >"$other/hashes.clang"
lines=$(wc -l <"$other/hashes.own")
if ((lines < 100)); then
  echo "two_compilers: only $lines hashes: nothing was compared"
  exit 1
fi
if ! diff -u "$other/hashes.own" "$other/hashes.clang"; then
  echo "two_compilers: results depend on the compiler"
  exit 1
fi
echo "two_compilers: $lines hashes of $(clang++ --version | head -1) and of the build's own compiler are equal"
