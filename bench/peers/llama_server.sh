#!/usr/bin/env bash
# Builds llama-server, what llm_bench measures against, from the same source distribution as libllama here: into a folder of the build
# tree, with llama.cpp's own CMake files and the instructions of one of our CPU variants (default: the best that this CPU advertises).
# usage: bench/peers/llama_server.sh [x86-64-v4|x86-64-v3|x86-64-v2]     prints the program's path
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
has() { grep -qw "$1" /proc/cpuinfo; }
best=x86-64-v2
if has avx2 && has fma; then best=x86-64-v3; fi
if has avx512_vnni && has avx512_bf16; then best=x86-64-v4; fi
variant=${1:-$best}
archive=$root/build/deps/llama_cpp_python-$(cat "$root/cmake/llama_version").tar.gz
tree=$root/build/peers/llama-server-$variant
program=$tree/build/bin/llama-server
if [ ! -x "$program" ]; then
  [ -f "$archive" ] || { echo "rayo: no $archive" >&2; echo "try: ./dev deps" >&2; exit 1; }
  case "$variant" in
    x86-64-v4) cpu="-DGGML_AVX512=ON -DGGML_AVX512_VNNI=ON -DGGML_AVX512_BF16=ON" ;;
    x86-64-v3) cpu="" ;;
    x86-64-v2) cpu="-DGGML_AVX=OFF -DGGML_AVX2=OFF -DGGML_FMA=OFF -DGGML_F16C=OFF -DGGML_BMI2=OFF" ;;
    *) echo "rayo: no CPU variant '$variant'" >&2; echo "try: x86-64-v4, x86-64-v3, x86-64-v2" >&2; exit 2 ;;
  esac
  echo "== building llama-server for $variant in $tree (about 8 minutes on 2 cores)" >&2
  mkdir -p "$tree"
  tar xzf "$archive" -C "$tree" --strip-components=1
  # shellcheck disable=SC2086
  { cmake -S "$tree/vendor/llama.cpp" -B "$tree/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF \
      -DGGML_NATIVE=OFF $cpu -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_APP=OFF \
      -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_OPENSSL=OFF \
      -DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache &&
    ninja -C "$tree/build" -j "${RAYO_JOBS:-$(nproc)}" llama-server; } >"$tree/build.log" 2>&1 ||
    { tail -20 "$tree/build.log" >&2; echo "rayo: llama-server could not be built; all of it: $tree/build.log" >&2; exit 1; }
fi
echo "$program"
