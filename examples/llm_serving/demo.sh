#!/usr/bin/env bash
# ./dev demo serve: an OpenAI endpoint over two nodes; the node that is answering is killed, and the answer goes on.
# A third node, without CPUs for engines, is the head's and the command's: neither is made to survive its own death.
# In a home of its own; leaves nothing behind.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
bin=$root/build/release/bin
model=$root/build/deps/models/SmolLM2-135M-Instruct.Q4_1.gguf
if [ ! -x "$bin/rayo-serve" ] || [ ! -f "$model" ]; then
  echo "dev demo: rayo-serve or its model is not there (RAYO_LLM=OFF?)" >&2
  echo "try: ./dev deps && ./dev build" >&2
  exit 1
fi

scratch=$(mktemp -d /tmp/rayo-demo.XXXXXX)
export RAYO_HOME=$scratch/home RAYO_RUNTIME_DIR=$scratch/run PATH=$bin:$PATH
unset RAYO_ADDRESS RAYO_TOKEN RAYO_TOKEN_FILE
service=
finish() {
  local status=$?
  if [ -n "$service" ]; then kill "$service" 2>/dev/null && wait "$service" 2>/dev/null; fi
  rayo stop --all >/dev/null 2>&1 || true
  rm -rf "$scratch"
  exit $status
}
trap finish EXIT

tell() { printf '\n\033[1m# %s\033[0m\n' "$*"; }
run() { printf '$ %s\n' "$*"; "$@"; }

# ask FILE: the streamed answer, to the terminal and into FILE.
ask() {
  curl -sN "$url/v1/chat/completions" -H 'Content-Type: application/json' -d '{"model": "smollm2", "stream": true, "temperature": 0,
    "max_tokens": 280, "messages": [{"role": "user", "content": "Recite the numbers: 1, 2, 3, 4, 5 and so on up to 90."}]}' |
    python3 -u -c 'import json, sys
for line in sys.stdin:
    if line.startswith("data: {"):
        event = json.loads(line[6:])
        if "error" in event: sys.exit(event["error"]["message"])
        print(event["choices"][0]["delta"].get("content") or "", end="", flush=True)
print()' | tee "$1"
}

# The engine that computes most within half a second, and its raylet.
busy_engine() {
  python3 - "$scratch" <<'PY'
import os, sys, time
def engines():
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if sys.argv[1] in open(f"/proc/{pid}/environ").read() and ".gguf" in open(f"/proc/{pid}/maps").read():
                stat = open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()
                if "rayo-raylet" in os.readlink(f"/proc/{stat[1]}/exe"):
                    yield int(pid), int(stat[1]), int(stat[11]) + int(stat[12])
        except OSError:
            pass
before = {pid: ticks for pid, _, ticks in engines()}
time.sleep(0.5)
pid, raylet, _ = max(engines(), key=lambda one: one[2] - before.get(one[0], one[2]))
print(pid, raylet)
PY
}

tell "A head, and two nodes that compute"
run rayo start --head --num-cpus 0
address=$(rayo status --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["cluster"]["address"])')
run rayo start --address "$address" --num-cpus 2
run rayo start --address "$address" --num-cpus 2

tell "One command: the model on both of them, behind one OpenAI endpoint"
echo "\$ rayo serve $model --name smollm2 --replicas 2 --port 0 --threads 1 --max-context 2048"
rayo serve "$model" --name smollm2 --replicas 2 --port 0 --threads 1 --max-context 2048 >"$scratch/serve.out" 2>"$scratch/serve.err" &
service=$!
ready() {
  url=$(sed -nE 's|.* answers at (http://[^ ]+)/v1|\1|p' "$scratch/serve.out")
  [ -n "$url" ] && [ "$(curl -s "$url/ready" | grep -o '"state":"ready"' | wc -l)" = 2 ]
}
for _ in $(seq 600); do
  ready && break
  kill -0 "$service" || { cat "$scratch/serve.err"; exit 1; }
  sleep 0.1
done
cat "$scratch/serve.out"
port=${url##*:}
until rayo serve status --port "$port" | grep -q ': ready'; do sleep 0.1; done  # its report is up to half a second old
run rayo serve status --port "$port"

tell "A question, and its streamed answer"
ask "$scratch/undisturbed"

tell "The same question; kill -9 of the node that is answering, in the middle of it"
ask "$scratch/disturbed" &
asking=$!
read -r engine raylet < <(busy_engine)
kill -9 "$raylet" "$engine"
wait "$asking"
printf '\n(kill -9 %s %s: the raylet of that node, and the engine)\n' "$raylet" "$engine"
cmp "$scratch/undisturbed" "$scratch/disturbed"
echo "Both answers are the same, to the last character."
run rayo serve status --port "$port"

tell "The end"
run rayo serve stop --port "$port"
wait "$service"
service=
run rayo stop || true  # the killed node is named as not reachable
left=$(pgrep -f "$scratch" || true)
if [ -n "$left" ]; then
  echo "left behind: processes '$left'"
  exit 1
fi
echo "nothing is left: no process, no socket, no file"
