"""What a user loses if these fail: a node whose stream to the head breaks again and again, a program that cannot start, or a
driver that is cut off, for a byte that is no UTF-8. The program is tests/cluster/programs/odd_bytes.cc."""
from pathlib import Path

from conftest import Program

ACTOR_DIED, TASK, INVALID = 3, 1, 13  # rayo::ErrorKind


def test_the_last_words_of_a_process_may_be_any_bytes(cluster):
    program = Program(cluster, "cluster_odd_bytes", "crash")
    assert program.line_that("last line: ") == "last line: caf\\xe9"
    assert program.line_that("passed: ") == "passed: 7"
    actors = cluster.rayo("list", "actors", "--json", code=0).json()["actors"]
    assert [one["death"]["last_log_lines"] for one in actors if one["death"]] == [["caf\ufffd"]], actors
    workers = cluster.rayo("list", "workers", "--json", code=0).json()["workers"]
    assert ["caf\ufffd"] in [one["death"]["last_log_lines"] for one in workers if one["death"]], workers
    cluster.wait_for(lambda: program.errors.buffer.seek(0) or b"caf\xe9" in program.errors.buffer.read(), "its driver sees them")
    logs = "".join(path.read_text(errors="replace") for path in Path(cluster.root).rglob("*.log"))
    assert "attached" in logs and "attached to the head again" not in logs, logs
    assert program.end() == 0


def test_what_was_thrown_and_names_may_be_any_bytes(cluster):
    program = Program(cluster, "cluster_odd_bytes", "throw")
    method = program.line_that("method: ")
    assert method.startswith(f"method: {TASK} ") and "caf\\xe9" in method, method
    constructor = program.line_that("constructor: ")
    assert "caf\\xe9" in constructor, constructor
    spawn = program.line_that("spawn: ")
    assert spawn.startswith(f"spawn: {INVALID} ") and "is not UTF-8" in spawn, spawn
    find = program.line_that("find: ")
    assert find.startswith(f"find: {INVALID} ") and "caf\\xe9" in find, find
    assert program.line_that("then: ") == "then: 7", "its connection was closed"
    assert program.process.wait(20) == 0


def test_what_a_driver_is_given_may_be_any_bytes(cluster, tmp_path):
    folder = tmp_path / "d\udcff"
    folder.mkdir()
    program = Program(cluster, "cluster_odd_bytes", "given", "caf\udce9", env={"NAME": "Jos\udce9"}, wrap=("env", "-C", str(folder)))
    assert program.line_that("argument: ") == "argument: caf\\xe9"
    assert program.line_that("worker: ") == f"worker: Jos\\xe9 in {tmp_path}/d\\xff"
    jobs = cluster.rayo("list", "jobs", "--json", code=0).json()["jobs"]
    assert [one["arguments"][-1] for one in jobs] == ["caf\ufffd"], jobs
    assert cluster.rayo("why", jobs[0]["id"], code=0).out
    assert program.end() == 0
