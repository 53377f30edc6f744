#!/bin/bash
# Runs the tests labelled `sanitize` of a sanitizer build. usage: run_suite.sh asan|tsan
set -euo pipefail
command=(ctest --preset "$1" --parallel "$(nproc)")
# ThreadSanitizer of GCC 12 cannot place its shadow memory where the kernel randomises addresses over many bits.
if [[ $1 == tsan ]] && setarch "$(uname -m)" -R true 2>/dev/null; then command=(setarch "$(uname -m)" -R "${command[@]}"); fi
exec "${command[@]}"
