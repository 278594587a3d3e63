"""What a user loses if these fail: a death is not known, not explained, or leaves something behind.

The programs are tests/cluster/programs/deaths.cc; what is killed is killed for real.
"""
import json
import os
import random
import signal
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest
from conftest import Program, can_make_namespaces

ACTOR_DIED, TASK_SYSTEM = 3, 2  # rayo::ErrorKind


def pid_in(folder, name):
    return int((Path(folder) / name).read_text().split()[0])


@pytest.fixture
def nodes(home):
    """A head with its node and a second node, 4 CPUs each."""
    home.head = home.start_head("--num-cpus", "4")
    home.address = home.head["address"]
    home.second = home.start_node(home.address, "--num-cpus", "4")
    return home.head["node"], home.second["node"]


def node_state(home, node):
    return next(one for one in home.status()["nodes"] if one["id"] == node)


@pytest.mark.parametrize("where", [0, 1], ids=["same_node", "other_node"])
@pytest.mark.parametrize("kind", ["actor", "task"])
def test_a_killed_worker_is_known_to_its_caller_at_once_and_with_its_record(home, nodes, kind, where):
    program = Program(home, "cluster_deaths", "victims", kind, nodes[where], 11)
    told = json.loads(program.line(60))
    assert program.process.wait(20) == 0
    assert told["p50_us"] <= 50_000, told  # the budget of ./dev bench's row
    assert told["error_kind"] == (ACTOR_DIED if kind == "actor" else TASK_SYSTEM), told
    assert (told["kind"], told["signal"], told["exit_code"], told["node"]) == ("signal", 9, 0, nodes[where]), told
    assert told["lines"] == [f"last words of {told['pid']}"], told
    assert told["incarnation"] == (1 if kind == "actor" else 0), told
    if kind == "actor":
        actors = home.rayo("list", "actors", "--json", code=0).json()["actors"]
        records = [one["death"] for one in actors if one["death"]["pid"] == told["pid"]]
        assert [(r["kind"], r["signal"], r["node"], r["last_log_lines"], r["incarnation"]) for r in records] == \
            [("signal", 9, nodes[where], told["lines"], 1)], records
    workers = home.rayo("list", "workers", "--json", code=0).json()["workers"]
    assert [one["death"]["signal"] for one in workers if one["pid"] == told["pid"]] == [9]


def mapped_files(home):
    """Shared memory that the raylets hold: a pair of rings, an arena and doorbells are memfds."""
    count = 0
    for pid, command in home.processes().items():
        if "rayo-raylet" in command and "rayo-keeper" not in command:
            count += sum("memfd:" in line for line in Path(f"/proc/{pid}/maps").read_text().splitlines())
    return count


def what_is_left(home, daemons, shared):
    """Of a driver, as lines. By HTTP: the command line itself takes a tenth of the second that a driver's end may take."""
    with urllib.request.urlopen(home.head["http"] + "/api/status", timeout=10) as answer:
        status = json.load(answer)
    left = [f"{key} of {node['id'][:8]}: {node[key]}" for node in status["nodes"] for key in ("workers", "drivers") if node[key]]
    left += [f"{name} of {node['id'][:8]}: {of}" for node in status["nodes"] for name, of in node["resources"].items() if of["free"] != of["total"]]
    left += [f"objects of {node['id'][:8]}: {node['object_store']}" for node in status["nodes"] if node["object_store"]["used_bytes"]]
    left += [f"actors {key}: {status['actors'][key]}" for key in ("pending", "starting", "alive", "restarting") if status["actors"][key]]
    left += [f"named {one}" for one in status["actors"]["named"]]
    left += [f"waits {one}" for one in status["pending"]]
    left += [f"process {pid}: {command}" for pid, command in home.processes().items() if pid not in daemons]
    if mapped_files(home) != shared:
        left.append(f"shared memory: {mapped_files(home)} maps, {shared} before")
    return left


def what_lists_say(home):
    left = [f"job {one}" for one in home.rayo("list", "jobs", "--json", code=0).json()["jobs"] if one["state"] != "ended"]
    left += [f"worker {one}" for one in home.rayo("list", "workers", "--json", code=0).json()["workers"] if one["state"] != "dead"]
    return left + [f"actor {one}" for one in home.rayo("list", "actors", "--json", code=0).json()["actors"] if one["state"] != "dead"]


def wait_until_nothing_is_left(home, daemons, shared):
    gone = time.monotonic()
    while (left := what_is_left(home, daemons, shared)) and time.monotonic() - gone < 5:
        pass
    assert not left, left
    return time.monotonic() - gone


def shows_what_is_held(status, large):
    nodes = status["nodes"]
    return (status["actors"]["alive"] == 2 and sum(node["drivers"] for node in nodes) == 1
            and all(node["workers"] >= 2 and node["resources"]["cpu"]["free"] == 3 for node in nodes)
            and (not large or sum(node["object_store"]["used_bytes"] for node in nodes) >= 1 << 20))


ENDS = ["return", "throw", signal.SIGINT, signal.SIGKILL]


@pytest.mark.parametrize("place", ["on_a_node", "remote"])
@pytest.mark.parametrize("end", ENDS, ids=lambda end: getattr(end, "name", end))
def test_a_drivers_end_leaves_nothing_within_a_second(home, nodes, tmp_path, end, place):
    daemons, shared = set(home.processes()), mapped_files(home)
    program = Program(home, "cluster_deaths", "hold", *nodes, env=home.away(tmp_path) if place == "remote" else None)
    program.line_that("ready", 60)
    # A node's figures come with its next beat, after what the head itself knows.
    status = home.wait_for(lambda: (s := home.status()) and shows_what_is_held(s, large=place == "on_a_node") and s,
                           "two actors, two tasks, the driver and its object are shown")
    assert len(status["actors"]["named"]) == 2, status
    if isinstance(end, str):
        program.tell(end)
    else:
        program.process.send_signal(end)
    code = program.process.wait(20)
    assert code == {"return": 0, "throw": -signal.SIGABRT}.get(end, -end if not isinstance(end, str) else None)
    took = wait_until_nothing_is_left(home, daemons, shared)
    assert took <= 1, f"gone after {took:.2f} s"
    assert not (listed := what_lists_say(home)), listed


def lives(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.parametrize("place", ["on_a_node", "remote"])
def test_a_driver_killed_at_any_moment_leaves_nothing_within_a_second(home, nodes, tmp_path, place):
    """Ten lives each: with a child that it has forked, which lives on, and without."""
    seed = os.environ.get("RAYO_TEST_SEED", "1")
    chance = random.Random(f"{seed} {place}")
    daemons, shared = set(home.processes()), mapped_files(home)
    away = home.away(tmp_path) if place == "remote" else None
    for life in range(10):
        moment = chance.uniform(0, chance.choice([0.15, 1]))
        program = Program(home, "cluster_ends", "busy", *["fork"] * (life % 2), *nodes, env=away)
        time.sleep(moment)
        program.process.kill()
        program.process.wait(20)
        program.reader.join(20)  # a child has said its pid, and closed its output
        children = {int(line.split()[1]) for line in list(program.lines.queue) if line}
        try:
            took = wait_until_nothing_is_left(home, daemons | children, shared)
            assert took <= 1, f"seed {seed}, life {life}, killed after {moment:.3f} s: gone after {took:.2f} s"
            assert all(map(lives, children))
        finally:
            for child in children:
                os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize("place", ["on_a_node", "remote"])
@pytest.mark.parametrize("end", ["return", "kill"])
def test_a_forked_child_neither_breaks_its_parent_nor_keeps_its_job(home, nodes, tmp_path, end, place):
    daemons, shared = set(home.processes()), mapped_files(home)
    program = Program(home, "cluster_ends", "fork", *nodes, env=home.away(tmp_path) if place == "remote" else None)
    child = int(program.line_that("child ", 60).split()[1])
    try:
        assert program.line(60) == "good"
        if end == "return":
            assert program.end() == 0
        else:
            program.process.kill()
            program.process.wait(20)
        took = wait_until_nothing_is_left(home, daemons | {child}, shared)
        assert took <= 1 and lives(child), f"gone after {took:.2f} s"
        assert not (listed := what_lists_say(home)), listed
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_killed_raylet_leaves_no_process_and_its_actors_callers_are_told_node_lost(home, nodes):
    program = Program(home, "cluster_deaths", "call", nodes[1])
    assert [program.line(60) for _ in range(3)] == ["0", "1", "2"]
    of_node = {pid for pid, command in home.processes().items() if home.second["node_dir"] in command}
    workers = [one["pid"] for one in home.rayo("list", "workers", "--json", code=0).json()["workers"] if one["node"] == nodes[1]]
    assert workers
    os.kill(pid_in(home.second["node_dir"], "raylet.pid"), signal.SIGKILL)
    killed = time.monotonic()
    home.wait_for(lambda: not (set(home.processes()) & (of_node | set(workers))), "its keeper has ended its tree", 2)
    states = {}
    while "dead" not in states:
        states.setdefault(node_state(home, nodes[1])["state"], time.monotonic() - killed)
        assert time.monotonic() - killed < 8, states
    # suspect_after and dead_after_refused, from the last beat, which is up to 0.25 s before the kill; and status takes its time.
    assert 0.5 < states["suspect"] < 2 and 2.5 < states["dead"] < 4.5, states
    told = json.loads(program.line_that("{", 10))
    assert time.monotonic() - killed < 5
    assert (told["error_kind"], told["kind"], told["node"], told["incarnation"]) == (ACTOR_DIED, "node_lost", nodes[1], 1), told
    dead = node_state(home, nodes[1])
    assert (dead["workers"], dead["drivers"], dead["death"]["kind"]) == (0, 0, "node_lost")
    assert all(of["free"] == 0 for of in dead["resources"].values())
    assert program.end() == 0


def test_a_killed_keeper_takes_its_node_with_it(home, nodes):
    program = Program(home, "cluster_deaths", "call", nodes[1])
    assert [program.line(60) for _ in range(3)] == ["0", "1", "2"]
    of_node = {pid for pid, command in home.processes().items() if home.second["node_dir"] in command}
    workers = {one["pid"] for one in home.rayo("list", "workers", "--json", code=0).json()["workers"] if one["node"] == nodes[1]}
    os.kill(pid_in(home.second["node_dir"], "keeper.pid"), signal.SIGKILL)
    home.wait_for(lambda: not (set(home.processes()) & (of_node | workers)), "raylet and workers have ended", 10)
    told = json.loads(program.line_that("{", 20))
    assert told["error_kind"] == ACTOR_DIED and told["node"] == nodes[1], told
    home.wait_for(lambda: [node["state"] for node in home.status()["nodes"]].count("alive") == 1, "the head knows")
    assert program.end() == 0


def test_a_killed_zygote_costs_nobody_an_actor(home, nodes):
    program = Program(home, "cluster_deaths", "late")
    program.line_that("ready", 60)
    workers = lambda: home.rayo("list", "workers", "--json", code=0).json()["workers"]
    # One that is being forked has no pid yet, and 0 is this program's own group.
    made = home.wait_for(lambda: [one["pid"] for one in workers() if one["kind"] in ("zygote", "worker") and one["state"] != "dead" and one["pid"] > 0],
                         "a zygote stands ready")
    for pid in made:  # its spare workers too: the next one must be made anew
        os.kill(pid, signal.SIGKILL)
    # One that is handed out while it dies takes its actor along.
    home.wait_for(lambda: {one["pid"] for one in workers() if one["state"] == "dead"} >= set(made), "their ends are known")
    program.tell("go")
    assert [program.line(20) for _ in range(3)] == ["0", "1", "2"]
    program.process.terminate()
    program.process.wait(20)


def test_calls_go_on_when_the_head_is_killed_and_status_tells_what_is_known(home, nodes):
    program = Program(home, "cluster_deaths", "chat", *nodes)
    for _ in range(3):
        program.line(60)
    head_keeper = {pid for pid, command in home.processes().items() if "rayo-head" in command}
    os.kill(pid_in(Path(home.head["session_dir"]) / "head", "head.pid"), signal.SIGKILL)
    home.wait_for(lambda: not (set(home.processes()) & head_keeper), "the head and its keeper are gone")
    began = time.monotonic()
    last = int(program.line())
    while time.monotonic() - began < 3:  # longer than a node takes to be dead
        last = int(program.line(5))
    assert last > 100
    status = home.rayo("status", "--json", code=3).json()
    assert status["cluster"]["reachable"] is False
    assert 2 < time.time() - status["cluster"]["as_of"] < 20
    assert {node["id"] for node in status["nodes"]} == set(nodes)
    here = next(node for node in status["nodes"] if node["id"] == nodes[0])
    assert here["state"] == "alive" and here["drivers"] == 1 and here["workers"] >= 1, here
    assert status["actors"]["alive"] == 1  # of this node: the other one's are not its to know
    told = home.rayo("status", code=3)
    assert "The head does not answer" in told.out
    program.tell("return")
    program.process.kill()
    program.process.wait()
    assert home.rayo("stop", "--all", "--grace", "2s").code in (0, 1)
    home.check_nothing_left()


def test_an_actor_that_is_made_while_the_head_is_stopped_lives_and_the_head_hears_of_it(home, nodes):
    program = Program(home, "cluster_deaths", "late")
    program.line_that("ready", 60)
    head = pid_in(Path(home.head["session_dir"]) / "head", "head.pid")
    os.kill(head, signal.SIGSTOP)
    try:
        program.tell("go")
        began = time.monotonic()
        while time.monotonic() - began < 7:  # longer than the head's patience
            line = program.line(10)
            assert not line.startswith("{"), line
        assert int(line) > 100
    finally:
        os.kill(head, signal.SIGCONT)
    home.wait_for(lambda: home.status()["actors"]["alive"] == 1, "the head knows of it")
    while program.line(5).startswith("{"):
        pass
    program.process.terminate()
    program.process.wait(20)
    home.wait_for(lambda: home.status()["actors"]["alive"] == 0, "and of its end")


def test_while_the_heads_disk_is_full_no_actor_runs_calls_that_is_refused_then(home):
    """The first one may have begun: who calls it hears that the head did not take it."""
    if not can_make_namespaces():
        pytest.skip("no right to make a mount namespace")
    state = home.root / "run" / "state"
    state.mkdir(parents=True)
    script = f'chmod 700 {state.parent} && mount -t tmpfs -o size=64m,mode=700 tmpfs {state} && exec "$@"'
    rayo, home.program = home.program, "unshare"
    started = home.start_head("--num-cpus", "8", before=("--mount", "sh", "-c", script, "sh", rayo))
    home.program = rayo
    session = Path(started["session_dir"])

    def in_its_place(command):
        subprocess.run(["nsenter", "-m", "-t", str(pid_in(session / "head", "head.pid")), "sh", "-c", f"cd {state} && {command}"], check=True)

    def raylet_says(text):
        home.wait_for(lambda: any(text in log.read_text() for log in session.rglob("raylet.log")), text)

    first, second, third = (Program(home, "cluster_deaths", "late") for _ in range(3))
    for program in first, second, third:
        program.line_that("ready", 60)
    in_its_place("head -c 64m /dev/zero >ballast 2>/dev/null || true")
    first.tell("go")
    while not (line := first.line()).startswith("{"):
        pass
    assert "read_only: the head takes no changes" in json.loads(line)["error"], line
    raylet_says("the head is read_only")
    second.tell("go")
    assert second.line() == "0", "it has made no call yet"
    assert "read_only: the head takes no changes" in json.loads(second.line())["error"]
    in_its_place("rm ballast")
    raylet_says("the head takes changes again")
    third.tell("go")
    assert [third.line() for _ in range(3)] == ["0", "1", "2"]
    for program in first, second:
        assert program.end() == 0
