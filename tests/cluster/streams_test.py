"""If these fail: a stream between processes or nodes loses items, or one side never hears that the other was killed."""
import subprocess

import pytest
from conftest import BIN


@pytest.mark.parametrize("driver", ["on_a_node", "remote"])
def test_streams_over_two_nodes_and_deaths(home, tmp_path, driver):
    address = home.start_head("--num-cpus", "8")["address"]
    home.start_node(address, "--num-cpus", "8")
    env = home.env if driver == "on_a_node" else {**home.env, **home.away(tmp_path)}
    process = subprocess.run([str(BIN / "cluster_streams")], env=env, text=True, capture_output=True, timeout=150)
    assert process.returncode == 0 and "2 nodes, 0 failed" in process.stdout, process.stdout + process.stderr
