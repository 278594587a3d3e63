"""If these fail: a way of calling (near, far, from a remote driver) does not work on a real cluster."""
import subprocess

import pytest
from conftest import BIN


def run(home, *args, **env):
    process = subprocess.run([str(BIN / "cluster_calls"), *args], env={**home.env, **env}, text=True, capture_output=True, timeout=120)
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


def test_handles_from_node_to_node(home):
    """An actor whose only handle is on its way from one node to another lives on."""
    address = home.start_head("--num-cpus", "8")["address"]
    home.start_node(address, "--num-cpus", "8")
    assert "2 nodes, handles, 0 failed" in run(home, "handles")


def test_a_program_with_threads_before_init(home):
    """Its workers are exec'd one by one, and must be reached all the same."""
    home.start_head("--num-cpus", "8")
    process = subprocess.run([str(BIN / "cluster_threaded")], env=home.env, text=True, capture_output=True, timeout=60)
    assert process.returncode == 0 and process.stdout == "42\n", process.stdout + process.stderr


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
