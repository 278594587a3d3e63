#!/usr/bin/env bash
# tests/run_fuzz.sh                     builds the fuzz preset and runs every target for 10 s
# tests/run_fuzz.sh PROGRAM [SECONDS]   one of them: makes its seeds, then fuzzes; a finding is kept in build/fuzz/findings and the exit is 1
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
if [ $# -eq 0 ]; then
  ./dev build fuzz fuzz_targets
  exec ctest --test-dir build/fuzz -L fuzz --output-on-failure
fi
program=$1
seconds=${2:-10}
name=$(basename "$program")
mkdir -p build/fuzz/findings
corpus=$(mktemp -d)
trap 'rm -rf "$corpus"' EXIT
RAYO_FUZZ_SEEDS=$corpus "$program"
if "$program" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=65536 -print_final_stats=1 \
  -artifact_prefix="build/fuzz/findings/$name-" "$corpus" >"$corpus.log" 2>&1; then
  grep -E 'number_of_executed_units|peak_rss_mb' "$corpus.log"
  rm -f "$corpus.log"
else
  tail -60 "$corpus.log"
  rm -f "$corpus.log"
  exit 1
fi
