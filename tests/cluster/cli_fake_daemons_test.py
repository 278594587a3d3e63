"""What a user loses if these fail: `rayo start` hangs, says nothing, or leaves processes and files when a daemon misbehaves.

The daemons are stand-ins: scripts beside a copy of `rayo`, with the real keeper.
"""
import os
import shutil
import signal
import stat
import subprocess

import pytest
from conftest import BIN, Home

READY = """
import json, os, signal, sys, time; os.umask(0o077)
settings = json.load(open(sys.argv[sys.argv.index("--settings") + 1]))
ready = int(sys.argv[sys.argv.index("--ready-fd") + 1])
def say(**words):
    document = dict(ok=True, address="", listen="", data_address="", http="", cluster="", cluster_name="", node="", exit_code=1, error="", next_step="", notes=[])
    document.update(words)
    os.write(ready, (json.dumps(document) + "\\n").encode()); os.close(ready)
def pid_file(path):
    ticks = open("/proc/self/stat").read().rpartition(")")[2].split()[19]
    open(path, "w").write(f"{os.getpid()} {ticks} {open('/proc/sys/kernel/random/boot_id').read()}")
"""
GOOD_HEAD = READY + """
pid_file(os.path.join(settings["session_dir"], "head", "head.pid"))
open(settings["token_file"], "w").write("a" * 64 + "." + "b" * 64)
say(address="127.0.0.1:%d" % (settings["bind"]["port"] or 1), http="http://127.0.0.1:1", cluster="c" * 32, notes=["a note"])
signal.pause()
"""
GOOD_RAYLET = READY + """
pid_file(os.path.join(settings["node_dir"], "raylet.pid"))
say(address="127.0.0.1:2", cluster="c" * 32, node="d" * 32)
signal.pause()
"""


@pytest.fixture
def fakes(tmp_path):
    """A home whose daemons are the given scripts: fakes(head=..., raylet=...)."""
    for name in ("rayo", "rayo-keeper"):
        if not (BIN / name).exists():
            pytest.skip(f"not built: {name}")
        shutil.copy2(BIN / name, tmp_path / name)
    home = Home(program=tmp_path / "rayo")

    def make(head=GOOD_HEAD, raylet=GOOD_RAYLET):
        for name, text in (("rayo-head", head), ("rayo-raylet", raylet)):
            if text is None:
                continue
            path = tmp_path / name
            path.write_text("#!/usr/bin/python3\n" + text)
            path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return home

    try:
        yield make
        home.check_nothing_left()
    finally:
        home.remove()


def start(home, *flags, **more):
    return home.rayo("start", "--head", "--local", *flags, **more)


def test_start_says_where_everything_is_and_stop_leaves_nothing(fakes):
    home = fakes()
    started = start(home, code=0)
    for part in ("127.0.0.1:6379", "http://127.0.0.1:1", "rayo status", "rayo stop", "rayo start --address 127.0.0.1:6379"):
        assert part in started.out, repr(started)
    assert "a note" in started.err
    assert "a" * 64 not in started.out, "a loopback cluster needs no token to be pasted"
    assert len(home.processes()) == 4
    for path in (home.root / "run").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path
    home.rayo("stop", code=0)
    home.check_nothing_left()
    assert home.rayo("stop").code == 3


def test_a_second_head_works_beside_the_first_and_stop_ends_neither_unasked(fakes):
    home = fakes()
    start(home, code=0)
    second = start(home, "--port", "7777", code=0)
    assert "rayo stop --address 127.0.0.1:7777" in second.out, repr(second)
    listed = home.rayo("stop", code=2)
    assert "127.0.0.1:6379" in listed.err and "127.0.0.1:7777" in listed.err, repr(listed)
    assert len(home.processes()) == 8
    home.rayo("stop", "--address", "localhost:7777", code=0)
    assert len(home.processes()) == 4
    home.rayo("stop", code=0)


def test_a_second_node_needs_only_the_address(fakes):
    home = fakes()
    start(home, code=0)
    home.rayo("start", "--address", "127.0.0.1:6379", code=0)
    assert len(home.processes()) == 6
    assert len(list((home.root / "run").glob("*/node-*"))) == 2
    home.rayo("stop", "--all", code=0)


def test_the_reason_of_a_daemon_and_its_exit_code_reach_the_user(fakes):
    home = fakes(head=READY + 'say(ok=False, exit_code=3, error="cannot listen: port 6379 is taken by nginx (pid 12)", next_step="--port 0"); sys.exit(3)')
    refused = start(home, code=3)
    assert refused.error == ("cannot listen: port 6379 is taken by nginx (pid 12)", "--port 0")
    assert home.left() == []


@pytest.mark.parametrize("head, expected", [
    ("import sys; sys.stderr.write('no such thing\\n'); sys.exit(7)", "no such thing"),
    ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "rayo-head"),
    ("import os, sys; os.write(int(sys.argv[-1]), b'noise'); sys.exit(0)", "not a JSON object"),
])
def test_a_head_that_dies_without_a_word_is_an_error_with_its_last_line(fakes, head, expected):
    home = fakes(head=head)
    failed = start(home, code=1)
    assert expected in failed.error[0], repr(failed)
    assert home.left() == []


def test_a_raylet_that_fails_takes_the_head_with_it(fakes):
    home = fakes(raylet=READY + 'say(ok=False, exit_code=1, error="cannot make the arena: no space", next_step="--object-store-memory 64MiB"); sys.exit(1)')
    failed = start(home, code=1)
    assert failed.error[0].startswith("cannot make the arena")
    assert home.left() == []


def test_a_failing_second_node_leaves_the_first_alone(fakes):
    home = fakes()
    start(home, code=0)
    fakes(head=None, raylet=READY + 'say(ok=False, exit_code=3, error="cannot reach the head: refused", next_step="x"); sys.exit(3)')
    home.rayo("start", "--address", "127.0.0.1:6379", code=3)
    assert len(home.processes()) == 4
    assert len(list((home.root / "run").glob("*/node-*"))) == 1
    home.rayo("stop", code=0)


def test_ctrl_c_during_a_start_takes_everything_back(fakes):
    home = fakes(raylet=READY + "signal.pause()")
    process = home.popen("start", "--head", "--local")
    home.wait_for(lambda: len(home.processes()) >= 5, "head and raylet run")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 1 and "interrupted" in err, err
    assert home.left() == []


def wait_in_the_foreground(process):
    """Until `start --block` says that it waits."""
    for line in process.stderr:
        if "in the foreground" in line:
            return
    raise AssertionError(f"it ended: {process.communicate()}")


def test_block_stays_and_ctrl_c_stops_the_cluster(fakes):
    home = fakes()
    process = home.popen("start", "--head", "--local", "--block")
    wait_in_the_foreground(process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 0, err
    assert "is stopped" in out


def test_block_ends_when_a_daemon_dies(fakes):
    home = fakes()
    process = home.popen("start", "--head", "--local", "--block")
    wait_in_the_foreground(process)
    (pid_file,) = (home.root / "run").glob("*/node-1/raylet.pid")
    os.kill(int(pid_file.read_text().split()[0]), 9)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 1 and "raylet has ended" in err, err


def test_a_daemon_that_ignores_sigterm_is_killed_after_the_grace(fakes):
    home = fakes(raylet=GOOD_RAYLET.replace("signal.pause()", "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: time.sleep(1)"))
    start(home, code=0)
    stopped = home.rayo("stop", "--grace", "300ms", code=0)
    assert "was killed" in stopped.err, repr(stopped)
    assert stopped.seconds < 10
    assert home.left() == []


def test_stop_never_touches_a_process_that_only_has_the_pid(fakes):
    home = fakes()
    start(home, code=0)
    bystander = subprocess.Popen(["sleep", "60"])
    try:
        pid_file = next((home.root / "run").glob("*/node-1/raylet.pid"))
        real = int(pid_file.read_text().split()[0])
        pid_file.write_text(f"{bystander.pid} 1 {open('/proc/sys/kernel/random/boot_id').read()}")
        home.rayo("stop", code=0)
        assert bystander.poll() is None, "stop ended a process that is not ours"
        home.wait_for(lambda: not os.path.exists(f"/proc/{real}"), "the real raylet ended with its keeper")
    finally:
        bystander.kill()
        bystander.wait()


def test_leftovers_of_a_killed_cluster_are_cleared_by_stop(fakes):
    home = fakes()
    start(home, code=0)
    for pid in home.processes():
        os.kill(pid, 9)
    home.wait_for(lambda: not home.processes(), "all are gone")
    assert home.rayo("status").code == 3
    cleared = home.rayo("stop", code=0)
    assert "had ended already" in cleared.out
    assert home.left() == []


SILENT_HEAD = READY + """
pid_file(os.path.join(settings["session_dir"], "head", "head.pid"))
signal.pause()
"""


def begin_a_start(home):
    """A start whose head says nothing, with its head's pid file written."""
    process = home.popen("start", "--head", "--local", "--name", "slow")
    home.wait_for(lambda: list((home.root / "run").glob("slow/head/head.pid")), "the head runs")
    return process


def test_stop_ends_what_a_killed_start_has_left(fakes):
    home = fakes(head=SILENT_HEAD)
    process = begin_a_start(home)
    process.kill()
    process.communicate()
    assert start(home, "--name", "slow", code=2).error == ("cannot start 'slow': a cluster of that name was left half started",
                                                           "choose another --name, or end it: rayo stop --all")
    stopped = home.rayo("stop", code=0)
    assert "Cluster 'slow', whose start was not finished, is stopped" in stopped.out, repr(stopped)
    home.check_nothing_left()


def test_stop_all_ends_a_start_that_is_still_at_it_and_stop_does_not(fakes):
    home = fakes(head=SILENT_HEAD)
    process = begin_a_start(home)
    home.rayo("stop", code=3)
    assert process.poll() is None
    home.rayo("stop", "--all", code=0)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 1 and "interrupted" in err, err
    home.check_nothing_left()


@pytest.mark.parametrize("removed", ["", "fakes/node-1", "fakes/head"])
def test_stop_ends_a_cluster_whose_files_were_removed_under_it(fakes, removed):
    home = fakes()
    start(home, "--name", "fakes", code=0)
    assert len(home.processes()) == 4
    shutil.rmtree(home.root / "run" / removed)
    stopped = home.rayo("stop", code=0)
    assert "Cluster 'fakes' is stopped" in stopped.out and "were removed while the cluster ran" in stopped.err, repr(stopped)
    home.check_nothing_left()


def test_a_daemon_that_is_about_to_end_is_not_said_to_have_lost_its_files(fakes):
    """Its pid files are gone a moment before it is."""
    home = fakes()
    start(home, code=0)
    for name in ("raylet.pid", "keeper.pid"):
        next((home.root / "run").glob(f"*/node-1/{name}")).unlink()
    stopped = home.rayo("stop", code=0)
    assert "were removed" not in stopped.err, repr(stopped)
    home.check_nothing_left()
