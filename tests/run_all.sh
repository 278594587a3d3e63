#!/usr/bin/env bash
# Every kind of test, told kind by kind with its minutes; ends with "rayo: N passed, N failed, N skipped".
#
#   tests/run_all.sh            all
#   tests/run_all.sh NAME...    those whose name contains one of NAME (ctest entries and pytest cases of the release build)
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
results=$root/build/results
rm -rf "$results"
mkdir -p "$results"
times=$results/times.tsv
failed_stages=()
builder=
trap '[ -z "$builder" ] || kill -- -"$builder" 2>/dev/null' EXIT
trap 'exit 130' INT TERM

# stage KIND COMMAND...: runs it, notes its seconds, goes on after a failure.
stage() {
  local kind=$1
  shift
  printf '\n== %s\n' "$kind"
  local begin=$SECONDS
  if ! "$@"; then
    failed_stages+=("$kind")
    printf '== %s FAILED\n' "$kind"
  fi
  printf '%s\t%s\n' "$kind" $((SECONDS - begin)) >>"$times"
}

# Builds what the sanitizers run, one preset after the other, while the tests of the release build run: those mostly wait. It takes the
# processor time that nobody else wants, so that no test gets less (a session of its own has a share of its own, where the kernel
# groups by session: the least one).
build_the_rest() {
  setsid bash -c '
    echo 19 >/proc/self/autogroup 2>/dev/null
    for what in asan:sanitized_tests tsan:sanitized_tests fuzz:fuzz_targets; do
      chrt --idle 0 ./dev build "${what%:*}" "${what#*:}" >"$0/build_${what%:*}.log" 2>&1
      echo $? >"$0/build_${what%:*}.rc.new" && mv "$0/build_${what%:*}.rc.new" "$0/build_${what%:*}.rc"
    done' "$results" </dev/null &
  builder=$!
}

# built PRESET: waits for that build and tells what it said.
built() {
  local result=$results/build_$1.rc
  while [ ! -e "$result" ] && kill -0 "$builder" 2>/dev/null; do
    sleep 1
  done
  cat "$results/build_$1.log"
  [ "$(cat "$result" 2>/dev/null)" = 0 ]
}

# ctests PRESET EXTRA...: the ctest entries of a build tree; each gtest program writes its cases as XML beside them.
ctests() {
  local preset=$1
  shift
  mkdir -p "$results/$preset"
  GTEST_OUTPUT=xml:$results/$preset/ ctest --test-dir "build/$preset" --output-on-failure --no-tests=ignore \
    --output-junit "$results/$preset.ctest.xml" "$@"
}

cluster_tests() {
  PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 -m pytest -q -p no:cacheprovider tests/cluster \
    --junitxml "$results/cluster.pytest.xml" "$@"
}

python_tests() {
  PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 -m pytest -q -p no:cacheprovider tests/python \
    --junitxml "$results/python.pytest.xml" "$@"
}

# The official client in build/venv (./dev deps), the real model; skips where RAYO_LLM is off.
serving_tests() {
  PYTHONDONTWRITEBYTECODE=1 build/venv/bin/python -m pytest -q -p no:cacheprovider tests/serving \
    --junitxml "$results/serving.pytest.xml" "$@" || [ $? = 5 ]  # 5: none has such a name
}

if [ $# -gt 0 ]; then
  pattern=$(IFS='|'; echo "$*")
  keyword=$(printf ' or %s' "$@")
  stage "build release" ./dev build release
  stage "tests named $*" ctests release -R "$pattern"
  stage "cluster tests named $*" cluster_tests -k "${keyword# or }"
  stage "Python tests named $*" python_tests -k "${keyword# or }"
  stage "serving tests named $*" serving_tests -k "${keyword# or }"
else
  stage "build release" ./dev build release
  build_the_rest
  stage "unit, simulation, build checks (release)" ctests release
  stage "cluster: real binaries, real sockets" cluster_tests
  stage "Python" python_tests
  stage "serving: OpenAI's client, real engines, deaths" serving_tests
  stage "build asan, what was left of it" built asan
  stage "unit (ASan, UBSan)" ctests asan -L sanitized_tests
  stage "build tsan, what was left of it" built tsan
  stage "unit, without gRPC (TSan)" ctests tsan -L sanitized_tests
  stage "build fuzz, what was left of it" built fuzz
  stage "fuzz, 10 s each" ctests fuzz -L fuzz
fi

printf '\nminutes  kind\n'
awk -F '\t' '{ printf "%7.1f  %s\n", $2 / 60, $1; total += $2 } END { printf "%7.1f  total\n", total / 60 }' "$times"
/usr/bin/python3 tests/count_results.py "$results" "${failed_stages[@]}"
