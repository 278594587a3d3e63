#!/usr/bin/env bash
# The main job on real input, told step by step: ./dev demo [cluster|python|serve]
# A head and two more nodes on this machine in a home of their own; leaves nothing behind.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
bin=$root/build/release/bin
story=${1:-all}
case "$story" in
  all | cluster | python) ;;
  serve) exec "$root/examples/llm_serving/demo.sh" ;;
  *)
    echo "dev demo: no story named '$1'" >&2
    echo "try: ./dev demo cluster|python|serve" >&2
    exit 2 ;;
esac

scratch=$(mktemp -d /tmp/rayo-demo.XXXXXX)
export RAYO_HOME=$scratch/home RAYO_RUNTIME_DIR=$scratch/run PATH=$bin:$PATH
unset RAYO_ADDRESS RAYO_TOKEN RAYO_TOKEN_FILE
survivor=
finish() {
  local status=$?
  [ -n "$survivor" ] && kill "$survivor" 2>/dev/null && wait "$survivor" 2>/dev/null
  rayo stop --all >/dev/null 2>&1 || true
  rm -rf "$scratch"
  exit $status
}
trap finish EXIT

tell() { printf '\n\033[1m# %s\033[0m\n' "$*"; }
run() { printf '$ %s\n' "$*"; "$@"; }

tell "A cluster: a head, and two more nodes on this machine"
run rayo start --head --num-cpus 2
address=$(rayo status --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["cluster"]["address"])')
run rayo start --address "$address" --num-cpus 2
run rayo start --address "$address" --num-cpus 2
run rayo status

if [ "$story" != cluster ]; then
  tell "Python over all nodes, under Ray's names (examples/python/three_nodes.py)"
  PYTHONPATH=$root/build/release/python run /usr/bin/python3 "$root/examples/python/three_nodes.py"
fi

if [ "$story" != python ]; then
tell "An actor that counts (examples/counter)"
run counter

tell "Tasks over all nodes (examples/pi)"
run pi

tell "Map and reduce over a real text, with refs and a named actor (examples/wordcount)"
run wordcount /usr/share/common-licenses/GPL-3

tell "A node dies while a program uses it (examples/survivor)"
: >"$scratch/survivor.out"  # the background makes it at a time of its own
survivor --seconds 8 >"$scratch/survivor.out" 2>&1 &
survivor=$!
for _ in $(seq 100); do
  grep -q 'all actors answer' "$scratch/survivor.out" && break
  sleep 0.1
done
victim=$(sort -V <(ls -d "$RAYO_RUNTIME_DIR"/*/node-*) | tail -1)
pid=$(cut -d' ' -f1 "$victim/raylet.pid")
run kill -9 "$pid"
wait "$survivor" || true
survivor=
cat "$scratch/survivor.out"
run rayo status
fi

tell "The end"
run rayo stop
left=$(pgrep -f "$scratch" || true)
if [ -n "$left" ] || [ -e "$RAYO_RUNTIME_DIR"/*/session.json ]; then
  echo "left behind: processes '$left', files $(ls "$RAYO_RUNTIME_DIR")"
  exit 1
fi
echo "nothing is left: no process, no socket, no file"
