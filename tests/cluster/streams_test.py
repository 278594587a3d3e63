"""If these fail: a stream between processes or nodes loses items, or one side never hears that the other was killed."""
import subprocess

from conftest import BIN


def test_streams_over_two_nodes_and_deaths(home):
    address = home.start_head("--num-cpus", "8")["address"]
    home.start_node(address, "--num-cpus", "8")
    process = subprocess.run([str(BIN / "cluster_streams")], env=home.env, text=True, capture_output=True, timeout=150)
    assert process.returncode == 0 and "2 nodes, 0 failed" in process.stdout, process.stdout + process.stderr
