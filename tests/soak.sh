#!/usr/bin/env bash
# ./dev soak [NAME] [--seconds N] [--seed S]: the long randomized and chaos runs, each with its seed printed.
#   simulation   cluster lives in simulated time, from seed S on, for N seconds
#   chaos        a real cluster for N seconds, whose workers and nodes are killed at random (tests/cluster/chaos_test.py)
#   mutants      small wrong changes of the deciding classes, each of which a test must find (tests/mutants); no seed, its own time
# Without a name: simulation, then chaos. Exit 1 at the first that fails.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
wrong_use() { printf 'dev soak: %s\ntry: ./dev soak [simulation|chaos|mutants] [--seconds N] [--seed S]\n' "$1" >&2; exit 2; }

name=
seconds=300
seed=$((RANDOM * 32768 + RANDOM + 1))
while [ $# -gt 0 ]; do
  case "$1" in
    --seconds | --seed)
      [[ ${2:-} =~ ^[1-9][0-9]{0,11}$ ]] || wrong_use "$1 wants a number over 0"
      declare "${1#--}=$2"
      shift 2 ;;
    simulation | chaos | mutants) name=$1 && shift ;;
    *) wrong_use "unknown: '$1'" ;;
  esac
done

# Batches of lives until the time is over; the batch under way is finished.
simulation() {
  ./dev build release simulation_test >&2
  local end=$((SECONDS + seconds)) next=$seed lives=500
  printf '== simulation: %s s from seed %s\n' "$seconds" "$seed"
  while [ $SECONDS -lt $end ]; do
    RAYO_SIM_SEED=$next RAYO_SIM_LIVES=$lives build/release/bin/simulation_test --gtest_brief=1
    next=$((next + lives))
  done
  printf 'simulation: every invariant held in %s lives\n' $((next - seed))
}

chaos() {
  ./dev build release >&2
  printf '== chaos: %s s, seed %s\n' "$seconds" "$seed"
  RAYO_CHAOS_SECONDS=$seconds RAYO_CHAOS_SEED=$seed PYTHONDONTWRITEBYTECODE=1 \
    /usr/bin/python3 -m pytest -q -p no:cacheprovider tests/cluster/chaos_test.py
}

case "$name" in
  simulation) simulation ;;
  chaos) chaos ;;
  mutants) exec /usr/bin/python3 tests/mutants/run.py ;;
  '')
    simulation
    chaos ;;
esac
