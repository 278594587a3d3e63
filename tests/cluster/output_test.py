"""What a user loses if these fail: what workers print is not found, floods the terminal, or nobody says why things are so."""
import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

from conftest import BIN, Program


CLASS = "{anonymous}::Victim"  # as C++ spells it: the program keeps it to itself


def started(home, lines):
    program = Program(home, "cluster_deaths", "print", lines)
    _, actor, pid = program.line_that("ready", 60).split()
    workers = home.rayo("list", "workers", "--json", code=0).json()["workers"]
    return program, actor, next(one for one in workers if one["pid"] == int(pid))


def test_what_an_actor_prints_is_shown_to_its_driver_and_by_logs(cluster):
    program, actor, worker = started(cluster, 5)
    host = os.uname().nodename
    shown = [f"({CLASS} pid={worker['pid']}, node={host}) line {i} of many" for i in range(5)]
    cluster.wait_for(lambda: [line for line in program.printed if " line " in line] == shown, f"the driver shows {shown}: {program.printed}")
    for name in (actor, actor[:8], worker["id"], worker["id"][:6]):
        told = cluster.rayo("logs", name, code=0).out.splitlines()
        assert told == [f"last words of {worker['pid']}"] + [f"line {i} of many" for i in range(5)], (name, told)
    assert cluster.rayo("logs", actor, "--tail", "2", code=0).out == "line 3 of many\nline 4 of many\n"
    assert cluster.rayo("logs", actor, "--tail", "0", code=0).out == ""
    assert "answers on" in cluster.rayo("logs", cluster.head["node"], code=0).out  # the raylet's own log
    lines = [json.loads(line) for line in cluster.rayo("logs", actor, "--json", "--tail", "2", code=0).out.splitlines()]
    same = {"schema": 1, "at": None, "node": cluster.head["node"], "pid": worker["pid"], "name": worker["what"], "stream": "stdout"}
    assert lines == [{**same, "text": f"line {i} of many"} for i in (3, 4)] and CLASS in worker["what"], lines
    *_, own = [json.loads(line) for line in cluster.rayo("logs", cluster.head["node"], "--json", code=0).out.splitlines()]
    assert (own["name"], own["node"], own["stream"]) == ("raylet", cluster.head["node"], "stderr") and abs(own["at"] - time.time()) < 60, own
    follower = cluster.popen("logs", worker["id"], "--follow", "--tail", "1", "--json")
    assert json.loads(follower.stdout.readline())["text"] == "line 4 of many"
    follower.send_signal(signal.SIGINT)
    follower.communicate(timeout=20)
    follower = cluster.popen("logs", worker["id"], "--follow", "--tail", "1")
    assert follower.stdout.readline() == "line 4 of many\n"
    program.tell("2")
    assert [follower.stdout.readline() for _ in range(2)] == ["line 0 of many\n", "line 1 of many\n"]
    follower.send_signal(signal.SIGINT)
    follower.communicate(timeout=20)
    assert program.end() == 0
    # After its end too: the files stay.
    assert cluster.rayo("logs", worker["id"], "--tail", "1", code=0).out == "line 1 of many\n"
    unknown = cluster.rayo("logs", "0123456789", code=1)
    assert "no log of 0123456789" in unknown.error[0]


def test_a_program_with_closed_output_keeps_its_connections_to_itself(cluster):
    """As daemons are started: what it and its workers print must not go into a socket of ours."""
    program = subprocess.Popen(["bash", "-c", f'exec "$0" call {cluster.head["node"]} <&- >&- 2>&-', BIN / "cluster_deaths"], env=cluster.env)
    try:
        cluster.wait_for(lambda: cluster.status()["actors"]["alive"] == 1, "its actor lives")
        assert [os.readlink(f"/proc/{program.pid}/fd/{fd}") for fd in range(3)] == ["/dev/null"] * 3
    finally:
        program.kill()
        program.wait()


def test_what_was_printed_just_before_the_drivers_end_is_shown(cluster):
    for _ in range(20):
        program = Program(cluster, "cluster_deaths", "print", 1)
        assert program.end() == 0  # it returns as soon as its actor has printed
        program.reader.join(10)
        assert [line for line in program.printed if line.endswith("line 0 of many")], program.printed


def test_a_flood_is_bounded_and_says_how_much_was_left_out(cluster):
    began = time.monotonic()
    program, _, worker = started(cluster, 200_000)
    seen = lambda: program.printed + [line for line in program.error_text().splitlines() if line.startswith("(")]
    notes = lambda: [int(found[1]) for found in (re.search(r"\.\.\. (\d+) lines more were left out", line) for line in seen()) if found]
    lines = lambda: sum(" line " in line for line in seen())
    cluster.wait_for(lambda: lines() + sum(notes()) == 200_000, "each line is shown or counted")
    took = time.monotonic() - began
    assert lines() <= 1_000 + 200 * (took + 1), (lines(), took)  # a burst, and then the rate
    assert len(notes()) <= took + 2, notes()
    assert len(cluster.rayo("logs", worker["id"], code=0).out.splitlines()) == 200_001  # the file has them all
    assert program.end() == 0


def test_why_answers_for_every_kind_of_id(cluster):
    program, actor, worker = started(cluster, 1)
    why = lambda name: cluster.rayo("why", name, "--json", code=0).json()
    told = why(worker["id"][:6])
    assert (told["kind"], told["state"], told["death"]) == ("worker", "actor", None)
    assert f"pid {worker['pid']}" in told["text"] and f"actor {CLASS}" in told["text"] and actor[:8] in told["text"], told
    told = why(actor)
    assert (told["kind"], told["state"]) == ("actor", "alive") and "alive" in told["text"]
    told = why(cluster.head["node"][:8])
    assert (told["kind"], told["state"]) == ("node", "alive")
    assert "1 drivers" in told["text"] and "is free" in told["text"], told
    job = cluster.rayo("list", "jobs", "--json", code=0).json()["jobs"][0]
    told = why(job["id"])
    assert (told["kind"], told["state"]) == ("job", "running") and "1 alive" in told["text"], told
    driver = next(one for one in cluster.rayo("list", "workers", "--json", code=0).json()["workers"] if one["kind"] == "driver")
    assert why(driver["id"])["kind"] == "driver"
    os.kill(worker["pid"], signal.SIGSEGV)
    cluster.wait_for(lambda: why(actor)["state"] == "dead", "the actor is dead")
    for name, kind in ((actor, "actor"), (worker["id"], "worker")):
        told = why(name)
        assert (told["kind"], told["state"]) == (kind, "dead")
        assert told["death"]["signal"] == signal.SIGSEGV and "signal 11" in told["text"], told
        assert told["death"]["last_log_lines"][-1] == "line 0 of many"
        assert "line 0 of many" in cluster.rayo("why", name, code=0).out
    program.process.kill()
    program.process.wait()
    cluster.wait_for(lambda: why(job["id"])["state"] == "ended", "the job has ended")
    assert "is gone" in why(job["id"])["text"]
    assert cluster.rayo("why", "0123456789", code=2).error[0].endswith("0123456789")


def in_a_wait(pid):
    """Its main thread sleeps in epoll."""
    return Path(f"/proc/{pid}/syscall").read_text().split()[0] in ("232", "281", "441")


def test_the_first_ctrl_c_interrupts_a_get_and_the_second_ends_the_program(cluster):
    program = Program(cluster, "cluster_deaths", "wait")
    assert program.line(60) == "waiting"
    cluster.wait_for(lambda: in_a_wait(program.pid), "the program waits")
    program.process.send_signal(signal.SIGINT)
    assert program.line(5) == "cancelled"
    assert program.line(5) == "waiting"
    cluster.wait_for(lambda: in_a_wait(program.pid), "the program waits again")
    program.process.send_signal(signal.SIGINT)
    assert program.process.wait(5) == -signal.SIGINT
    cluster.wait_for(lambda: cluster.status()["actors"]["alive"] == 0, "its actor has ended", 2)
