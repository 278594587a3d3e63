"""Fixtures of the cluster tests: the real programs in a private home, and a look at what is left afterwards.

    def test_something(cluster):                  # a head with one node, 2 CPUs, on loopback
        assert cluster.status()["nodes"][0]["state"] == "alive"

    def test_start(home):                         # nothing runs yet
        home.rayo("start", "--head", "--local", code=0)

Both end everything of their home and fail where a process, file, socket or listening port is left.
"""
import json
import os
import queue
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import pytest

# A runner in the background hands an ignored SIGINT down to all that it starts; the programs under test must hear it.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("RAYO_BIN_DIR", ROOT / "build" / "release" / "bin"))
DAEMONS = ("rayo", "rayo-head", "rayo-raylet", "rayo-keeper", "rayo-gpu-probe")


class Result:
    def __init__(self, args, code, out, err, seconds):
        self.args, self.code, self.out, self.err, self.seconds = args, code, out, err, seconds

    def __repr__(self):
        return f"rayo {' '.join(self.args)}: exit {self.code} after {self.seconds:.2f} s\n--- stdout\n{self.out}\n--- stderr\n{self.err}"

    def json(self):
        return json.loads(self.out)

    @property
    def error(self):
        """The two lines of an error: (what, next step)."""
        lines = [line for line in self.err.splitlines() if line.startswith(("rayo: ", "try: "))]
        assert len(lines) >= 2 and lines[-2].startswith("rayo: ") and lines[-1].startswith("try: "), repr(self)
        return lines[-2][len("rayo: "):], lines[-1][len("try: "):]


class Home:
    """A private RAYO_HOME and RAYO_RUNTIME_DIR under a short path (unix sockets have 107 bytes)."""

    def __init__(self, program=None):
        self.root = Path(tempfile.mkdtemp(prefix="rayo-t-", dir="/tmp"))
        self.program = program or BIN / "rayo"
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("RAYO_")}
        self.env.update(RAYO_HOME=str(self.root / "home"), RAYO_RUNTIME_DIR=str(self.root / "run"))
        self.ports = set()
        self.programs = []

    def popen(self, *args, env=None, **more):
        more = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL, **more}
        return subprocess.Popen([str(self.program), *map(str, args)], env={**self.env, **(env or {})}, text=True, **more)

    def rayo(self, *args, code=None, env=None, timeout=60, **more):
        """Runs a command; `code`: the exit code that it must have."""
        begin = time.monotonic()
        process = self.popen(*args, env=env, **more)
        out, err = process.communicate(timeout=timeout)
        result = Result([str(a) for a in args], process.returncode, out, err, time.monotonic() - begin)
        if code is not None:
            assert result.code == code, repr(result)
        return result

    def start_head(self, *flags, before=(), **more):
        """A head and its node on loopback, on free ports. Returns the JSON document of start. `before`: words that start it."""
        given = {"--port", "--http-port", "--node-port", "--num-cpus"} - set(flags)
        defaults = [word for flag in sorted(given) for word in (flag, "2" if flag == "--num-cpus" else "0")]
        local = [] if {"--node-ip", "--interface", "--local"} & set(flags) else ["--local"]
        return self._started(self.rayo(*before, "start", "--head", *local, *defaults, *flags, "--json", code=0, **more))

    def start_node(self, address, *flags, **more):
        cpus = [] if "--num-cpus" in flags else ["--num-cpus", "2"]
        return self._started(self.rayo("start", "--address", address, "--node-port", "0", *cpus, *flags, "--json", code=0, **more))

    def _started(self, result):
        document = result.json()
        document["result"] = result
        for address in (document["address"], document["node_address"]):
            self.ports.add(address)
        return document

    def status(self, *flags):
        return self.rayo("status", "--json", *flags, code=0).json()

    def away(self, folder):
        """The environment of a driver that shares nothing with this home but the token."""
        token = next((self.root / "home" / "sessions").glob("*.token")).read_text().strip()
        return {"RAYO_HOME": str(folder / "home"), "RAYO_RUNTIME_DIR": str(folder / "run"),
                "RAYO_ADDRESS": self.status()["nodes"][0]["address"], "RAYO_TOKEN": token}

    def wait_for(self, condition, what, timeout=20):
        """The condition's value as soon as it is true; fails with `what` at the deadline."""
        deadline = time.monotonic() + timeout
        while True:
            value = condition()
            if value:
                return value
            assert time.monotonic() < deadline, f"not within {timeout} s: {what}"
            time.sleep(0.02)

    def processes(self):
        """Pids and command lines of what runs in this home."""
        mark = f"RAYO_RUNTIME_DIR={self.env['RAYO_RUNTIME_DIR']}".encode()
        found = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            try:
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                    if state not in "ZX":
                        found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue  # it ended meanwhile, or belongs to someone else
        return found

    def left(self):
        """What a stopped cluster must not leave, as lines for people."""
        lines = [f"process {pid}: {command}" for pid, command in self.processes().items()]
        for name in ("run", "home"):
            base = self.root / name
            for path in sorted(base.rglob("*")) if base.exists() else []:
                if path.is_socket() or (path.is_file() and path.name != "rayo.toml"):
                    lines.append(f"file {path}")
        for address in self.ports:
            host, _, port = address.rpartition(":")
            try:
                socket.create_connection((host.strip("[]"), int(port)), timeout=0.5).close()
                lines.append(f"port {address} still answers")
            except OSError:
                pass
        lines += [f"shared memory /dev/shm/{name}" for name in os.listdir("/dev/shm") if self.root.name in name]
        return lines

    def stop_all(self):
        self.rayo("stop", "--all", "--grace", "5s")

    def check_nothing_left(self):
        # The last processes of a tree may still be on their way out of the kernel when stop has returned.
        deadline = time.monotonic() + 2
        while self.left() and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not self.left(), "left behind:\n" + "\n".join(self.left())

    def remove(self):
        for program in self.programs:
            program.close()
        for pid in self.processes():  # a failed test: nothing of it may disturb the next
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                pass
        shutil.rmtree(self.root, ignore_errors=True)


class Program:
    """A test program as driver: its own lines as they come (those of its workers, "(Name pid=...) ...", apart)."""

    def __init__(self, home, name, *args, env=None, wrap=()):
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([*map(str, wrap), str(BIN / name), *map(str, args)], env={**home.env, **(env or {})}, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors)
        self.pid, self.printed = self.process.pid, []
        self.lines = queue.Queue()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        home.programs.append(self)

    def _read(self):
        for line in self.process.stdout:
            (self.printed.append if line.startswith("(") else self.lines.put)(line.rstrip("\n"))
        self.lines.put(None)

    def line(self, timeout=30):
        """The next line; fails at the end of the output."""
        try:
            line = self.lines.get(timeout=timeout)
        except queue.Empty:
            raise AssertionError(f"no line within {timeout} s; {self.error_text()}") from None
        assert line is not None, f"it ended with {self.process.wait(10)}; {self.error_text()}"
        return line

    def line_that(self, begins, timeout=30):
        """The next line that begins so; those before it are passed over."""
        deadline = time.monotonic() + timeout
        while not (line := self.line(max(0.01, deadline - time.monotonic()))).startswith(begins):
            pass
        return line

    def tell(self, word):
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def error_text(self):
        self.errors.seek(0)
        return self.errors.read()

    def end(self, word="return", timeout=30):
        self.tell(word)
        return self.process.wait(timeout)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.reader.join(10)
        for stream in (self.process.stdin, self.process.stdout, self.errors):
            stream.close()


@pytest.fixture
def home():
    missing = [name for name in DAEMONS if not (BIN / name).exists()]
    if missing:
        pytest.skip(f"not built: {', '.join(missing)} (./dev build)")
    private = Home()
    try:
        yield private
        for program in private.programs:
            program.close()
        private.stop_all()
        private.check_nothing_left()
    finally:
        private.remove()


@pytest.fixture
def cluster(home):
    home.head = home.start_head()
    home.address = home.head["address"]
    return home


def can_make_namespaces():
    return subprocess.run(["unshare", "--net", "--mount", "true"], capture_output=True).returncode == 0


@pytest.fixture
def network():
    from machines import Network
    made = Network()
    good = False
    try:
        yield made
        good = True
    finally:
        made.end(good)


@pytest.fixture
def two_machines(network):
    a, b = network.machine("a"), network.machine("b")
    network.cable(a, b)
    for machine in (a, b):
        machine.sh("ip", "route", "add", "default", "dev", machine.devices[0])
    return a, b


def start_and_token(machine, *flags):
    """A head on this machine; what start says, and the environment with which another machine joins."""
    cpus = [] if "--num-cpus" in flags else ["--num-cpus", "1"]
    started = machine.rayo("start", "--head", *cpus, "--json", *flags, code=0).json()
    return started, {"RAYO_TOKEN": machine.rayo("token", "--json", code=0).json()["token"]}
