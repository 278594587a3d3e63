"""Machines of their own for a test: each is a network namespace with a home of its own, veth pairs are the cables.

    net = Network()
    a, b = net.machine("a"), net.machine("b")
    net.cable(a, b)                       # a.address, b.address: of the first cable; a.addresses: of all
    net.end()                             # stops, checks that no process is left, removes everything
"""
import os
import shutil
import subprocess

import pytest
from conftest import BIN, DAEMONS, Home, can_make_namespaces


def sh(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(map(str, words))}: {done.stderr}"


class Machine(Home):
    def __init__(self, name):
        super().__init__()
        self.name, self.addresses, self.devices = name, [], []

    @property
    def address(self):
        return self.addresses[0]

    def inside(self, *words):
        return ["ip", "netns", "exec", self.name, *map(str, words)]

    def sh(self, *words):
        sh(*self.inside(*words))

    def popen(self, *args, **more):
        real, self.program = self.program, "ip"
        try:
            return super().popen("netns", "exec", self.name, real, *args, **more)
        finally:
            self.program = real

    def run(self, *words, timeout=120, env=None, **more):
        """A program of the user's on this machine."""
        return subprocess.run(self.inside(*words), env={**self.env, **(env or {})}, text=True, capture_output=True, timeout=timeout, **more)

    def bytes_through(self, device):
        done = self.run("cat", f"/sys/class/net/{device}/statistics/rx_bytes", f"/sys/class/net/{device}/statistics/tx_bytes")
        return sum(map(int, done.stdout.split()))


class Network:
    def __init__(self):
        if any(not (BIN / name).exists() for name in DAEMONS):
            pytest.skip("not built (./dev build)")
        if not can_make_namespaces() or not shutil.which("ip"):
            pytest.skip("no right to make network namespaces")
        self.machines, self.cables = [], 0
        pid = os.getpid()
        self.prefix, self.net = f"r{pid}", f"10.{200 + pid % 50}"
        self.third = (pid // 50) * 4 % 240

    def machine(self, side):
        name = f"{self.prefix}-{side}"
        sh("ip", "netns", "add", name)
        sh("ip", "-n", name, "link", "set", "lo", "up")
        self.machines.append(Machine(name))
        return self.machines[-1]

    def cable(self, a, b, v6=False):
        number, self.cables = self.cables, self.cables + 1
        devices = [f"{self.prefix}{side}{number}" for side in "xy"]
        sh("ip", "link", "add", devices[0], "netns", a.name, "type", "veth", "peer", "name", devices[1], "netns", b.name)
        for i, (machine, device) in enumerate(zip((a, b), devices)):
            address = f"fd00:{number + 1:x}::{i + 1}" if v6 else f"{self.net}.{self.third + number}.{i + 1}"
            more = ["nodad"] if v6 else []
            sh("ip", "-n", machine.name, "addr", "add", f"{address}/{64 if v6 else 24}", "dev", device, *more)
            sh("ip", "-n", machine.name, "link", "set", device, "up")
            machine.addresses.append(address)
            machine.devices.append(device)

    def end(self, good):
        try:
            for machine in self.machines if good else []:
                for program in machine.programs:
                    program.close()
                machine.stop_all()
                assert not machine.processes(), machine.processes()
        finally:
            for machine in self.machines:
                machine.remove()
            for machine in self.machines:
                subprocess.run(["ip", "netns", "del", machine.name], capture_output=True)
