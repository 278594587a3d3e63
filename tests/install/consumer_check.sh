#!/usr/bin/env bash
# If this fails, an installed Rayo cannot be used by a program outside of its tree.
#   consumer_check.sh BUILD_DIR      installs to a scratch prefix; builds tests/install/consumer by find_package and by pkg-config,
#                                    with Debian's Boost 1.74 (which has no PFR) first in the include path, with LTO and
#                                    --gc-sections; runs both in one process and on a cluster
set -euo pipefail
build=$(cd "$1" && pwd)
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
old_boost=$here/../../build/deps/boost_1.74/usr/include
[ -f "$old_boost/boost/version.hpp" ] || { echo "no headers of libboost1.74-dev: ./dev deps unpacks them"; exit 1; }
scratch=$(mktemp -d /tmp/rayo-consumer.XXXXXX)
export RAYO_HOME=$scratch/home RAYO_RUNTIME_DIR=$scratch/run
unset RAYO_ADDRESS RAYO_TOKEN RAYO_TOKEN_FILE RAYO_BIN || true
trap '"$build/bin/rayo" stop --all >/dev/null 2>&1 || true; rm -rf "$scratch"' EXIT  # nothing may run any more: that is no failure
expected='12 3 std::runtime_error -5'

check() {
  local what=$1 got
  shift
  got=$("$@") || { echo "$what: exit code $?"; exit 1; }
  [ "$got" = "$expected" ] || { echo "$what: got '$got', expected '$expected'"; exit 1; }
  echo "$what: $got"
}

cmake --install "$build" --prefix "$scratch/prefix" >/dev/null
export CPLUS_INCLUDE_PATH=$old_boost

cmake -S "$here/consumer" -B "$scratch/by_cmake" -G Ninja -DCMAKE_PREFIX_PATH="$scratch/prefix" >"$scratch/log" || { cat "$scratch/log"; exit 1; }
cmake --build "$scratch/by_cmake" >"$scratch/log" || { cat "$scratch/log"; exit 1; }
check "find_package, LTO, gc-sections, archive, plugin" "$scratch/by_cmake/consumer" --in-process "$scratch/by_cmake/libplugin.so"

libdir=$(dirname "$(find "$scratch/prefix" -name librayo.a)")
export PKG_CONFIG_PATH=$libdir/pkgconfig
# shellcheck disable=SC2046
g++ -std=c++20 -O2 -flto -ffunction-sections -fdata-sections -Wl,--gc-sections "$here/consumer/main.cc" "$here/consumer/work.cc" \
  -o "$scratch/by_pkg" $(pkg-config --cflags --libs rayo)
check "pkg-config, LTO, gc-sections" "$scratch/by_pkg" --in-process
# shellcheck disable=SC2046
pfr=$(g++ -std=c++20 -M "$here/consumer/main.cc" $(pkg-config --cflags rayo) | tr ' ' '\n' | grep 'boost/pfr/core.hpp')
case $pfr in "$scratch/prefix"/*) ;; *) echo "PFR was taken from $pfr"; exit 1 ;; esac

# A cluster that the program starts, and one that it finds.
export RAYO_BIN=$scratch/prefix/bin
check "find_package, a cluster of its own" "$scratch/by_cmake/consumer" "$scratch/by_cmake/libplugin.so"
"$RAYO_BIN/rayo" start --head --local --port 0 --http-port 0 --node-port 0 --num-cpus 2 >"$scratch/log" || { cat "$scratch/log"; exit 1; }
check "find_package, a running cluster" "$scratch/by_cmake/consumer" "$scratch/by_cmake/libplugin.so"
check "pkg-config, a running cluster" "$scratch/by_pkg"
"$RAYO_BIN/rayo" stop --all >/dev/null
