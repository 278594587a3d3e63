"""If these fail: a way of calling (near, far, from a remote driver) does not work on a real cluster."""
import subprocess
from pathlib import Path

import pytest
from conftest import BIN, Program


def run(home, *args, program="cluster_calls", **env):
    process = subprocess.run([str(BIN / program), *args], env={**home.env, **env}, text=True, capture_output=True, timeout=120)
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout


def test_on_one_node(home):
    home.start_head("--num-cpus", "8")
    assert "1 nodes, local, 0 failed" in run(home)


def test_on_two_nodes(home):
    address = home.start_head("--num-cpus", "8")["address"]
    home.start_node(address, "--num-cpus", "8")
    assert "2 nodes, local, 0 failed" in run(home)


@pytest.mark.parametrize("nodes, by", [(1, "node"), (2, "node"), (2, "head")])
def test_from_a_remote_driver(home, tmp_path, nodes, by):
    """It has no arena: large values of others come to it through its raylet, piece by piece."""
    address = home.start_head("--num-cpus", "8")["address"]
    if nodes == 2:
        home.start_node(address, "--num-cpus", "8")
    away = home.away(tmp_path)
    assert f"{nodes} nodes, remote, 0 failed" in run(home, **(away if by == "node" else {**away, "RAYO_ADDRESS": address}))


@pytest.mark.parametrize("nodes", [1, 2])
def test_refs_inside_values_are_kept_by_them(home, nodes):
    """However deep, and although nobody reads them for long after their maker has let go."""
    address = home.start_head("--num-cpus", "8")["address"]
    for _ in range(nodes - 1):
        home.start_node(address, "--num-cpus", "8")
    assert f"{nodes} nodes, 0 failed" in run(home, program="cluster_nested_refs")


@pytest.mark.parametrize("way", ["calls", "values", "streams"])
def test_handles_from_node_to_node(home, way):
    """An actor whose only handle is on its way from one node to another, or in a value or stream that waits for its reader, lives on."""
    address = home.start_head("--num-cpus", "8")["address"]
    home.start_node(address, "--num-cpus", "8")
    assert f"2 nodes, {way}, 0 failed" in run(home, way, program="cluster_handles")


def test_a_program_with_threads_before_init(home):
    """Its workers are exec'd one by one, and must be reached all the same, with the variables that their actor was given."""
    home.start_head("--num-cpus", "8")
    process = subprocess.run([str(BIN / "cluster_threaded")], env={**home.env, "RAYO_TEST_LEVEL": "the driver's"},
                             text=True, capture_output=True, timeout=60)
    assert process.returncode == 0 and process.stdout == "42 the driver's, the actor's\n", process.stdout + process.stderr


def test_a_process_has_at_most_four_threads_of_ours(home):
    """Beside the user's own, which is its first."""
    node = home.start_head("--num-cpus", "4")["node"]
    program = Program(home, "cluster_deaths", "call", node)
    assert [program.line(60) for _ in range(3)] == ["0", "1", "2"]
    processes = home.rayo("list", "workers", "--json", code=0).json()["workers"]
    assert {one["kind"] for one in processes} == {"driver", "worker", "zygote"}, processes
    threads = {one["kind"]: [(task / "comm").read_text() for task in Path(f"/proc/{one['pid']}/task").iterdir()] for one in processes}
    assert all(len(names) <= 5 for names in threads.values()) and len(threads["zygote"]) == 1, threads


@pytest.mark.parametrize("nodes", [1, 2])
def test_while_every_unused_link_is_closed_at_once(home, nodes):
    """Rings and connections that were not used for a millisecond are given up: no call may be lost or overtake another."""
    file = home.root / "rayo.toml"
    file.write_text('[links]\nidle_after = "1ms"\n[leases]\nconfirm_each = "1s"\n')
    address = home.start_head("--num-cpus", "8", "--config", str(file))["address"]
    if nodes == 2:
        home.start_node(address, "--num-cpus", "8")
    for _ in range(3):
        assert f"{nodes} nodes, local, 0 failed" in run(home)
