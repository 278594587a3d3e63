"""If this fails: somewhere in a cluster whose workers and nodes are killed, a get hangs or answers wrongly, or what the dead held is
never given back.

RAYO_CHAOS_SEED runs the same choices again (the times at which they fall are the machine's), RAYO_CHAOS_SECONDS sets how long:
`./dev soak chaos --seconds N --seed S`.
"""
import os
import random
import signal
import subprocess
import time

from conftest import BIN

SECONDS = int(os.environ.get("RAYO_CHAOS_SECONDS", "12"))


def workers(home):
    listed = home.rayo("list", "workers", "--json", code=0).json()
    return [one for one in listed["workers"] if one["kind"] == "worker" and one["pid"] > 0 and not one["death"]]


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # it was quicker


class Nodes:
    """The nodes beside the head's: one dies now and then, and another comes."""

    def __init__(self, home, address):
        self.home, self.address, self.pids = home, address, []

    def add(self):
        before = set((self.home.root / "run").glob("*/node-*/raylet.pid"))
        self.home.start_node(self.address, "--num-cpus", "3")
        (new,) = set((self.home.root / "run").glob("*/node-*/raylet.pid")) - before
        self.pids.append(int(new.read_text().split()[0]))

    def replace(self, random_):
        kill(self.pids.pop(random_.randrange(len(self.pids))))
        self.add()


def everything_is_given_back(home):
    """Every living node has all of its resources, and nothing of a program that ended is left."""
    status = home.status()
    nodes = [node for node in status["nodes"] if node["state"] == "alive"]
    free = all(amount["free"] == amount["total"] for node in nodes for amount in node["resources"].values())
    actors = status["actors"]
    return len(nodes) == 3 and free and not any(actors[state] for state in ("pending", "starting", "alive", "restarting")) and not status["pending"]


def test_a_cluster_in_which_processes_and_nodes_die(home):
    seed = int(os.environ.get("RAYO_CHAOS_SEED", "0")) or random.randrange(1, 2**32)
    print(f"RAYO_CHAOS_SEED={seed}")
    random_ = random.Random(seed)
    nodes = Nodes(home, home.start_head("--num-cpus", "3")["address"])
    nodes.add()
    nodes.add()
    program = subprocess.Popen([str(BIN / "cluster_chaos"), str(seed), str(SECONDS)], env=home.env, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        end = time.monotonic() + SECONDS
        kills = 0
        while time.monotonic() < end - 1 and program.poll() is None:
            time.sleep(random_.uniform(0.1, 0.8))  # the chaos itself, not a wait for something
            if random_.random() < 0.2:
                nodes.replace(random_)
                kills += 1
            elif living := workers(home):
                kill(random_.choice(living)["pid"])
                kills += 1
        out, _ = program.communicate(timeout=150)
    finally:
        program.kill()
    assert program.returncode == 0, f"RAYO_CHAOS_SEED={seed}\n{out}"
    print(f"{kills} kills: {out.splitlines()[-1]}")
    answers = int(out.splitlines()[-1].split()[0])
    assert answers > 10 * SECONDS and kills > 0, f"RAYO_CHAOS_SEED={seed}: {kills} kills\n{out}"
    home.wait_for(lambda: everything_is_given_back(home), f"all resources are free again (RAYO_CHAOS_SEED={seed}): {home.status()}")
