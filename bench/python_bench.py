#!/usr/bin/python3
"""The Python API against its limits and, with RAYO_BENCH_RAY=1, against Ray in the same run (bench/peers/ray.sh, from
PyPI): rows as bench/harness.h describes them. Started by ./dev bench python."""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

_ROOT = pathlib.Path(__file__).resolve().parents[1]
_PACKAGE = _ROOT / "build" / "release" / "python"
_PYTHON = "/usr/bin/python3"


def row(name, value, unit, better, budget, reference=None):
    """`reference`: (name, value); without one the budget is on the value itself."""
    ratio = None if reference is None else value / reference[1]
    judged = value if ratio is None else ratio
    return {"name": name, "value": value, "unit": unit, "better": better,
            "reference": None if reference is None else {"name": reference[0], "value": reference[1]}, "ratio": ratio,
            "budget": budget, "holds": judged <= budget if better == "lower" else judged >= budget}


# Where the two ends of a row are, those of its reference as those of its calls: (suffix, core of the other end); this one is
# on core 0. Left alone, the kernel puts them on one core or on two as it happens, and to wake a core that rests costs here
# ten times what a wake on the same core does.
ENDS = [("", 1), (", on one core", 0)]


def stay_on(core):
    """Keeps every thread of this process there."""
    for thread in os.listdir("/proc/self/task"):
        os.sched_setaffinity(int(thread), {core})
    return core


def ping_pong_us(core, count=1000):
    """p50 of a byte there and back between two processes, by eventfds; the other one is on that core."""
    there, back = os.eventfd(0), os.eventfd(0)
    child = os.fork()
    if child == 0:
        os.sched_setaffinity(0, {core})
        for _ in range(count):
            os.eventfd_read(there)
            os.eventfd_write(back, 1)
        os._exit(0)
    spans = []
    for _ in range(count):
        begin = time.perf_counter_ns()
        os.eventfd_write(there, 1)
        os.eventfd_read(back)
        spans.append(time.perf_counter_ns() - begin)
    os.waitpid(child, 0)
    os.close(there), os.close(back)
    return statistics.median(spans) / 1000


def in_turn(subject, reference, rounds=7):
    """(subject's figure, reference's) of the round in the middle of the ratios."""
    pairs = [(subject(), reference()) for _ in range(rounds)]
    return sorted(pairs, key=lambda pair: pair[0] / pair[1])[rounds // 2]


def import_ms():
    spans = []
    for _ in range(5):
        begin = time.perf_counter()
        subprocess.run([_PYTHON, "-c", "import rayo"], check=True)
        with_rayo = time.perf_counter() - begin
        begin = time.perf_counter()
        subprocess.run([_PYTHON, "-c", "pass"], check=True)
        spans.append(with_rayo - (time.perf_counter() - begin))
    return statistics.median(spans) * 1000


def private_mib(pid):
    text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    return sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Private_")) / 1024


def idle_worker_mib(ray):
    @ray.remote
    class Idle:
        def pid(self):
            return os.getpid()

    actors = [Idle.remote() for _ in range(3)]  # the first of a package may be the zygote's elder
    return statistics.median(private_mib(ray.get(actor.pid.remote())) for actor in actors)


def single_call_rows(ray):
    """An actor's call and a task, one at a time; tasks go to the worker that stays leased, which is put there first."""
    from python_paths import p50_us

    @ray.remote
    class Echo:
        def same(self, x):
            return x

        def stay_on(self, core):
            return stay_on(core)

    @ray.remote
    def same(x):
        return x

    echo, put_there, rows = Echo.remote(), ray.remote(stay_on), []

    def call_us():
        return p50_us(lambda: ray.get(echo.same.remote(1)), 1000)

    def task_us(core):
        ray.get(put_there.remote(core))
        return p50_us(lambda: ray.get(same.remote(1)), 1000)

    everywhere = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {0})
    for suffix, core in ENDS:
        ray.get(echo.stay_on.remote(core))
        measured, limit = in_turn(call_us, lambda: 1.25 * ping_pong_us(core) + 15)
        rows.append(row("python: actor call, one at a time" + suffix, measured, "us", "lower", 1.0, ("1.25 eventfd ping-pong + 15 us", limit)))
        measured, of_actor = in_turn(lambda: task_us(core), call_us)
        rows.append(row("python: task, one at a time" + suffix, measured, "us", "lower", 2.0, ("an actor call", of_actor)))
    os.sched_setaffinity(0, everywhere)
    return rows


def own_rows(ray):
    from python_paths import measure

    found = measure(ray)
    return found, [
        *single_call_rows(ray),
        row("python: actor calls, 1000 in flight", found["calls_1000_per_s"], "/s", "higher", 50_000),
        row("python: put of 100 bytes", found["put_100_us"], "us", "lower", 5.0),
        row("python: get of 100 bytes", found["get_100_us"], "us", "lower", 5.0),
        row("python: an actor's first answer, warm", found["create_ms"], "ms", "lower", 40.0),
        row("python: put of 400 MiB, warm", found["put_400_mib"] / 1e9, "GB/s", "higher", 0.9,
            ("numpy.copyto", found["copyto_400_mib"] / 1e9)),
        row("python: get of 400 MiB", found["get_400_mib_us"], "us", "lower", 50.0),
        row("python: import rayo", import_ms(), "ms", "lower", 120.0),
        row("python: idle worker, private", idle_worker_mib(ray), "MiB", "lower", 20.0),
    ]


def ray_rows(found):
    """Beside Ray: at least as good in everything that both do."""
    python = subprocess.run([_ROOT / "bench/peers/ray.sh"], stdout=subprocess.PIPE, text=True)
    if python.returncode != 0:
        print("rayo: PyPI has no Ray here: rows beside it are left out", file=sys.stderr)
        return []
    done = subprocess.run([python.stdout.strip(), _ROOT / "bench/python_paths.py", "ray"], check=True, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": ""})
    theirs = json.loads(done.stdout.strip().splitlines()[-1])
    units = {"call_us": "us", "task_us": "us", "put_100_us": "us", "get_100_us": "us", "create_ms": "ms"}
    return [row(f"python: {path} beside Ray 2.60", found[path], unit, "lower", 1.0, ("Ray", theirs[path]))
            for path, unit in units.items()] + [
        row("python: calls_1000 beside Ray 2.60", found["calls_1000_per_s"], "/s", "higher", 1.0,
            ("Ray", theirs["calls_1000_per_s"]))]


def main():
    sys.path[:0] = [str(_PACKAGE), str(_ROOT / "bench")]
    os.environ["PYTHONPATH"] = str(_PACKAGE)
    with tempfile.TemporaryDirectory(prefix="rayo-bench-") as folder:
        os.environ.update(RAYO_HOME=folder + "/home", RAYO_RUNTIME_DIR=folder + "/run")
        os.environ.pop("RAYO_ADDRESS", None)
        import rayo

        rayo.init(num_cpus=4)
        found, rows = own_rows(rayo)
        rayo.shutdown()
        if os.environ.get("RAYO_BENCH_RAY") == "1":
            rows += ray_rows(found)
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
