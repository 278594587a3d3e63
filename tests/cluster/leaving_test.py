"""What a user loses if these fail: tasks and actors that other nodes could run fail since one node stops, or cannot start workers.
The program is tests/cluster/programs/leaving.cc."""
import os
import shutil
import signal
from pathlib import Path

import pytest
from conftest import Program


@pytest.fixture
def nodes(home):
    home.head = home.start_head("--num-cpus", "2")
    home.second = home.start_node(home.head["address"], "--num-cpus", "2")
    return home.second["node"]


def expect_all_is_well(program):
    assert program.line_that("tasks: ", 60) == "tasks: 4950"
    assert program.line_that("actor: ", 60) == "actor: 7"
    assert program.process.wait(20) == 0, program.error_text()


def test_a_node_that_is_stopped_fails_nothing_that_others_can_run(home, nodes):
    program = Program(home, "cluster_leaving", "stops", nodes)
    program.line_that("ready", 60)
    os.kill(int((Path(home.second["node_dir"]) / "raylet.pid").read_text().split()[0]), signal.SIGTERM)
    expect_all_is_well(program)


def break_workers(node_dir):
    """Their output has no place: as with a full disk, none can be started."""
    workers = Path(node_dir) / "workers"
    shutil.rmtree(workers)
    workers.write_text("")


def test_a_node_that_cannot_start_workers_fails_nothing_that_others_can_run(home, nodes):
    break_workers(home.second["node_dir"])
    program = Program(home, "cluster_leaving", "sick", nodes)
    expect_all_is_well(program)


def test_what_only_a_node_can_run_that_cannot_start_workers_waits_and_says_so(home, nodes):
    break_workers(home.second["node_dir"])
    program = Program(home, "cluster_leaving", "bound", nodes)
    program.line_that("ready", 60)
    why = home.wait_for(lambda: (said := home.rayo("why", "bound").out) and "worker_start" in said and said, "why names the cause")
    assert "cannot write" in why, why
    home.wait_for(lambda: "Counter waits: worker_start: cannot write" in program.error_text(), "its driver is told")
    assert program.end() == 0


@pytest.mark.parametrize("grace, flushed", [("20s", 2), ("200ms", 0)])
def test_actors_get_the_grace_of_a_stop_to_end_in_good_order(home, nodes, tmp_path, grace, flushed):
    folder = tmp_path / "flushed"
    folder.mkdir()
    program = Program(home, "cluster_ends", "flush", folder, home.head["node"], nodes)
    try:
        program.line_that("ready", 60)
        home.rayo("stop", "--grace", grace, code=0)
        assert [file.read_text() for file in folder.iterdir()] == ["all of it"] * flushed
    finally:
        program.process.kill()


def test_a_node_that_has_no_head_here_gets_the_grace_too(home, nodes, tmp_path):
    """As on another machine than the head's: nobody but `rayo stop` tells it."""
    folder = tmp_path / "flushed"
    folder.mkdir()
    program = Program(home, "cluster_ends", "flush", folder, nodes)
    try:
        program.line_that("ready", 60)
        os.kill(int((Path(home.head["session_dir"]) / "head" / "keeper.pid").read_text().split()[0]), signal.SIGKILL)
        home.rayo("stop", "--grace", "20s")
        assert [file.read_text() for file in folder.iterdir()] == ["all of it"]
    finally:
        program.process.kill()
