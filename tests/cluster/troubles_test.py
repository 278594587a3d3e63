"""What a user loses if these fail: a program that waits for ever, or runs what nobody wrote, where it should be told what is wrong."""
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest
from conftest import BIN
from errors_table import expect

PROGRAM, CHANGED = BIN / "cluster_troubles_1", BIN / "cluster_troubles_2"


class Program:
    """A driver whose lines the test reads, and to which it says when to go on."""

    def __init__(self, home, trouble, program=PROGRAM):
        self.process = subprocess.Popen([str(program), trouble], env=home.env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.stderr = ""

    def until_ready(self):
        """What it says before that."""
        said = ""
        for line in self.process.stdout:
            if line == "ready\n":
                return said
            said += line
        pytest.fail(said + self.process.stderr.read())

    def rest(self, go=True):
        """All that it says after one more line on its stdin."""
        out, self.stderr = self.process.communicate("go\n" if go else "", timeout=90)
        return out


def answer(text, of):
    """("Unavailable", seconds, text) of one line of the program, with what follows it."""
    begin = text.index(f"{of}: ")
    rest = text[begin + len(of) + 2:]
    kind, _, rest = rest.partition(" after ")
    seconds, _, rest = rest.partition(" s: ")
    return kind, float(seconds), rest


def run(home, trouble, program=PROGRAM):
    return Program(home, trouble, program).rest()


def test_infeasible(cluster):
    """`status` and `why` name it with figures, its driver is warned after 1 s, and get throws after schedule_timeout."""
    program = Program(cluster, "infeasible")
    program.until_ready()
    begin = time.monotonic()
    warning = program.process.stderr.readline()
    assert time.monotonic() - begin < 2.5 and "which no living node could ever hold" in warning and "64 GPU do not fit" in warning, warning
    pending = cluster.wait_for(lambda: cluster.status()["pending"], "status names what waits")[0]
    reason = pending["reasons"][0]
    assert pending["kind"] == "actor" and pending["resources"]["gpu"] == 64, pending
    assert "64" in reason["text"] and reason["nodes"] == 1, pending
    why = cluster.rayo("why", pending["examples"][0], code=0)
    assert "64" in why.out and "gpu" in why.out, repr(why)
    said = program.rest()
    kind, seconds, text = answer(said, "actor")
    expect("infeasible", kind, text.split("\ntask: ")[0].rstrip("\n"))
    assert 2.5 < seconds < 6, said
    kind, seconds, text = answer(said, "task")
    expect("infeasible", kind, text.rstrip("\n"))
    assert 1.5 < seconds < 6, said


def test_a_node_that_is_not_there(cluster):
    """Nobody waits for a node whose id is unknown: ids are random, and none comes under one that was never here."""
    said = run(cluster, "unknown_node")
    for name, after in (("task", "\nactor: "), ("actor", "\nnamed: "), ("named", "\nsoft: ")):
        kind, seconds, text = answer(said, name)
        text, _, next_step = text.split(after)[0].partition("\ntry: ")
        expect("unknown_node", kind, text, next_step)
        assert seconds < 2, said
    assert answer(said, "soft")[::2] == ("ok", "2\n"), said


def test_stuck_before_init(cluster):
    kind, seconds, text = answer(run(cluster, "stuck"), "actor")
    expect("stuck_before_init", kind, text.rstrip("\n"))
    assert "kind: start_failed" in text and "log: the licence server does not answer" in text, text
    assert 9 < seconds < 20, seconds


def test_another_type(cluster):
    """Two programs that were built from different sources of one type."""
    server = Program(cluster, "serve_map")
    server.until_ready()
    kind, _, text = answer(run(cluster, "use_map", CHANGED), "pin")
    expect("another_type", kind, text.rstrip("\n"))
    kind, _, text = answer(run(cluster, "use_map"), "pin")
    assert (kind, text) == ("ok", "2\n"), text
    server.rest()


@pytest.mark.parametrize("how", ["moved over", "written over"])
def test_a_program_rebuilt_while_it_runs(cluster, tmp_path, how):
    """The running job keeps its package, the next run ships the new one."""
    program = tmp_path / "program"
    shutil.copy(PROGRAM, program)
    old = Program(cluster, "rebuilt", program)
    assert answer(old.until_ready(), "build")[2] == "1\n"
    if how == "moved over":
        shutil.copy(CHANGED, tmp_path / "new")
        os.rename(tmp_path / "new", program)
    else:  # as a linker does
        program.unlink()
        shutil.copy(CHANGED, program)
    assert answer(old.rest(), "build")[2] == "1\n"
    new = Program(cluster, "rebuilt", program)
    assert answer(new.until_ready(), "build")[2] == "2\n"
    new.rest()


def at_init(home, **env):
    """What a program says that init refuses, and nobody catches: (type, text, next step)."""
    ended = subprocess.run([PROGRAM, "infeasible"], env={**home.env, **env}, text=True, capture_output=True, timeout=60)
    assert ended.returncode == -signal.SIGABRT, ended.stderr
    said = re.search(r"rayo::(?:v\d+::)?(\w+)'?\n *(?:what\(\): *)?(.*)\ntry: (.*)\n", ended.stderr)
    assert said, ended.stderr
    return said.groups()


def test_an_address_where_nobody_answers(home, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    expect("dead_address_in_a_program", *at_init(home, RAYO_ADDRESS=address))
    home.start_head()
    away = {**home.away(tmp_path), "RAYO_TOKEN": ""}
    expect("no_token_in_a_program", *at_init(home, **away))


def test_several_clusters_are_listed_to_a_program(home):
    first = home.start_head()
    home.start_head()
    expect("several_clusters_in_a_program", *at_init(home))
    _, port = first["address"].split(":")
    ran = subprocess.run([BIN / "counter"], env={**home.env, "RAYO_ADDRESS": f"localhost:{port}"}, text=True, capture_output=True, timeout=60)
    assert (ran.returncode, ran.stdout) == (0, "1.500000\n"), ran


def test_a_demand_that_is_no_amount(cluster):
    said = run(cluster, "no_amount")
    for name, amount in (("task", "nan"), ("actor", "1e+308")):
        kind, _, text = answer(said, name)
        text, _, next_step = text.split("\nactor: ")[0].rstrip("\n").partition("\ntry: ")
        expect("no_amount", kind, text.replace(amount, "nan"), next_step)


def test_without_head(home):
    """A head that is gone is told to who needs it, soon; what does not need it goes on."""
    started = home.start_head("--num-cpus", "4")
    program = Program(home, "without_head")
    program.until_ready()
    head = int((Path(started["session_dir"]) / "head" / "head.pid").read_text().split()[0])
    os.kill(head, 9)
    begin = time.monotonic()
    said = program.rest()
    assert time.monotonic() - begin < 20, said
    assert answer(said, "call")[0] == answer(said, "task")[0] == "ok", said
    for name, most in (("spawn", 8), ("again", 1), ("elsewhere", 2)):
        kind, seconds, text = answer(said, name)
        assert kind == "Unavailable" and seconds < most, said
        expect("head_gone_in_a_program", kind, text.split("\nagain: ")[0].split("\nelsewhere: ")[0].rstrip("\n"))
