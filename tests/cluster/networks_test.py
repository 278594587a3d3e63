"""What a user loses if these fail: two real machines do not come together, or a firewall's block is a riddle.

Each machine is a network namespace with a home of its own; a veth pair is the cable between them.
"""
import os
import shutil
import subprocess

import pytest
from conftest import BIN, DAEMONS, Home, can_make_namespaces


def sh(*words):
    subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True)


class Machine(Home):
    def __init__(self, name, address):
        super().__init__()
        self.name, self.address = name, address

    def popen(self, *args, **more):
        real, self.program = self.program, "ip"
        try:
            return super().popen("netns", "exec", self.name, real, *args, **more)
        finally:
            self.program = real


@pytest.fixture
def two_machines():
    if any(not (BIN / name).exists() for name in DAEMONS):
        pytest.skip("not built (./dev build)")
    if not can_make_namespaces() or not shutil.which("ip"):
        pytest.skip("no right to make network namespaces")
    net = f"10.{200 + os.getpid() % 50}.{os.getpid() // 50 % 250}"
    names = [f"rayo-{os.getpid()}-{side}" for side in "ab"]
    machines = []
    try:
        for i, name in enumerate(names):
            sh("ip", "netns", "add", name)
            sh("ip", "-n", name, "link", "set", "lo", "up")
            machines.append(Machine(name, f"{net}.{i + 1}"))
        sh("ip", "link", "add", f"ra{os.getpid()}", "netns", names[0], "type", "veth", "peer", "name", f"rb{os.getpid()}", "netns", names[1])
        for machine, device in zip(machines, (f"ra{os.getpid()}", f"rb{os.getpid()}")):
            sh("ip", "-n", machine.name, "addr", "add", f"{machine.address}/24", "dev", device)
            sh("ip", "-n", machine.name, "link", "set", device, "up")
            sh("ip", "-n", machine.name, "route", "add", "default", "dev", device)
        yield machines
        for machine in machines:
            machine.stop_all()
            assert not machine.processes(), machine.processes()
    finally:
        for machine in machines:
            machine.remove()
        for name in names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


def start_and_token(machine):
    started = machine.rayo("start", "--head", "--num-cpus", "1", "--json", code=0).json()
    assert started["address"] == f"{machine.address}:6379"
    return started, {"RAYO_TOKEN": machine.rayo("token", "--json", code=0).json()["token"]}


def test_a_node_on_another_machine_joins_with_the_pasted_line(two_machines):
    head, other = two_machines
    started, token = start_and_token(head)
    joined = other.rayo("start", "--address", started["address"], "--num-cpus", "1", "--json", env=token, code=0).json()
    assert joined["node_address"].startswith(other.address)
    states = {one["id"]: one["state"] for one in head.status()["nodes"]}
    assert states[joined["node"]] == "alive" and len(states) == 2
    # Without the token in the environment: the joined machine keeps it for its own commands.
    assert len(other.status()["nodes"]) == 2
    other.rayo("stop", code=0)
    head.wait_for(lambda: sum(one["state"] == "alive" for one in head.status()["nodes"]) == 1, "the node has left")


def test_stop_on_the_heads_machine_ends_the_other_machine_too(two_machines):
    head, other = two_machines
    started, token = start_and_token(head)
    other.rayo("start", "--address", started["address"], "--num-cpus", "1", env=token, code=0)
    head.rayo("stop", code=0)
    other.wait_for(lambda: not other.processes(), "the other machine's processes have ended")


def test_a_port_blocked_one_way_is_named_with_its_direction(two_machines):
    head, other = two_machines
    started, token = start_and_token(head)
    rules = f"table inet block {{\n chain in {{\n type filter hook input priority 0\n ip saddr {head.address} tcp dport 6380 drop\n }}\n}}"
    sh("ip", "netns", "exec", other.name, "nft", rules)
    refused = other.rayo("start", "--address", started["address"], "--num-cpus", "1", env=token, code=3)
    what, _ = refused.error
    assert f"{other.address}:6380" in what, repr(refused)
    assert not other.processes()
    assert len(head.status()["nodes"]) == 1 or all(one["state"] != "alive" or one["head"] for one in head.status()["nodes"])


def test_start_names_the_interface_that_it_chose_and_why(two_machines):
    head, _ = two_machines
    started = head.rayo("start", "--head", "--num-cpus", "1", code=0)
    assert f"{head.address}:6379" in started.out and "default route" in started.out, repr(started)
