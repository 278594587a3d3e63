#!/usr/bin/env bash
# If this fails, an installed Rayo cannot be used by a program outside of its tree.
#   consumer_check.sh BUILD_DIR      installs to a scratch prefix; builds tests/install/consumer by find_package and by pkg-config,
#                                    with a Boost without PFR (Debian's 1.74) first in the include path, with LTO and --gc-sections;
#                                    runs it in one process and, where BUILD_DIR/bin/rayo is there, on a cluster of its own
set -euo pipefail
build=$(cd "$1" && pwd)
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
scratch=$(mktemp -d /tmp/rayo-consumer.XXXXXX)
trap 'rm -rf "$scratch"' EXIT
export RAYO_HOME=$scratch/home RAYO_RUNTIME_DIR=$scratch/run
unset RAYO_ADDRESS RAYO_TOKEN RAYO_TOKEN_FILE RAYO_BIN || true
expected='12 3 std::runtime_error -5'

check() {
  local what=$1 got
  shift
  got=$("$@") || { echo "$what: exit code $?"; exit 1; }
  [ "$got" = "$expected" ] || { echo "$what: got '$got', expected '$expected'"; exit 1; }
  echo "$what: $got"
}

cmake --install "$build" --prefix "$scratch/prefix" >/dev/null
mkdir -p "$scratch/old/boost"
echo '#define BOOST_VERSION 107400' >"$scratch/old/boost/version.hpp"
export CPLUS_INCLUDE_PATH=$scratch/old

cmake -S "$here/consumer" -B "$scratch/by_cmake" -G Ninja -DCMAKE_PREFIX_PATH="$scratch/prefix" >"$scratch/log" || { cat "$scratch/log"; exit 1; }
cmake --build "$scratch/by_cmake" >"$scratch/log" || { cat "$scratch/log"; exit 1; }
check "find_package, LTO, gc-sections, archive, plugin" "$scratch/by_cmake/consumer" --in-process "$scratch/by_cmake/libplugin.so"

libdir=$(dirname "$(find "$scratch/prefix" -name librayo.a)")
export PKG_CONFIG_PATH=$libdir/pkgconfig
# shellcheck disable=SC2046
g++ -std=c++20 -O2 "$here/consumer/main.cc" "$here/consumer/work.cc" -o "$scratch/by_pkg" $(pkg-config --cflags --libs rayo)
check "pkg-config" "$scratch/by_pkg" --in-process
# shellcheck disable=SC2046
pfr=$(g++ -std=c++20 -M "$here/consumer/main.cc" $(pkg-config --cflags rayo) | tr ' ' '\n' | grep 'boost/pfr/core.hpp')
case $pfr in "$scratch/prefix"/*) ;; *) echo "PFR was taken from $pfr"; exit 1 ;; esac

if [ -x "$scratch/prefix/bin/rayo" ]; then
  RAYO_BIN=$scratch/prefix/bin check "on a cluster of its own" "$scratch/by_cmake/consumer" "$scratch/by_cmake/libplugin.so"
fi
