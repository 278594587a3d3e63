"""`rayo serve` as people run it: a head and two nodes with engines on this machine, the real model, the official client.

    def test_chat(served):
        served.client.chat.completions.create(model=served.model, messages=[...])

One service for the whole session (loading costs seconds); a test that kills something starts its own with `service()`.
"""
import contextlib
import importlib.util
import json
import os
import re
import signal
import subprocess
import urllib.request
from pathlib import Path

import pytest

# tests/cluster's fixtures, under another name than this file's.
_spec = importlib.util.spec_from_file_location("cluster_fixtures", Path(__file__).resolve().parents[1] / "cluster" / "conftest.py")
cluster = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(cluster)
BIN, DAEMONS, ROOT, Home = cluster.BIN, cluster.DAEMONS, cluster.ROOT, cluster.Home

MODEL = ROOT / "build" / "deps" / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"


class Service:
    def __init__(self, home, *flags, model=MODEL, name="smollm2", port=0):
        self.home = home
        self.log = home.root / f"serve-{name}.log"
        with open(self.log, "w") as log:
            self.process = subprocess.Popen([str(BIN / "rayo"), "serve", str(model), "--name", name, "--port", str(port),
                                             "--threads", "1", "--max-context", "2048", "--parallel", "4", *flags],
                                            env=home.env, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        self.url = home.wait_for(self._url, "the service says where it answers", timeout=60)
        self.port = int(self.url.rpartition(":")[2])
        self.model = name

    def _url(self):
        text = self.log.read_text()
        assert self.process.poll() is None, f"rayo serve ended:\n{text}"
        found = re.search(r"answers at (http://\S+)/v1", text)
        return found and found[1]

    @property
    def client(self):
        import openai
        return openai.OpenAI(base_url=self.url + "/v1", api_key="none", max_retries=0, timeout=60)

    def get(self, path):
        with urllib.request.urlopen(self.url + path, timeout=10) as answer:
            return answer.read().decode()

    def ready(self):
        try:
            return json.loads(self.get("/ready"))
        except OSError as error:
            return {"status": str(error), "models": {}}

    def replicas_ready(self):
        return sum(replica["state"] == "ready" for replica in self.ready()["models"].get(self.model, []))

    def status(self):
        """What is told of the endpoint and of this model."""
        told = json.loads(self.home.rayo("serve", "status", "--port", self.port, "--json", code=0).out)
        return {**told, **next(model for model in told["models"] if model["name"] == self.model)}

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            assert self.process.wait(timeout=40) == 0, self.log.read_text()
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()


def engine_pids(one):
    """The processes that hold an engine: those with the model mapped, less the gateway's."""
    pids = []
    for pid in one.home.processes():
        try:
            if pid != one.process.pid and str(MODEL.resolve()) in Path(f"/proc/{pid}/maps").read_text():
                pids.append(pid)
        except OSError:
            continue  # it ended meanwhile
    return pids


@contextlib.contextmanager
def cluster_of(nodes, *flags):
    """A head, whose node is the command's and has no CPUs for engines, and so many nodes for these."""
    missing = [name for name in (*DAEMONS, "rayo-serve") if not (BIN / name).exists()]
    if missing or not MODEL.exists():
        pytest.skip(f"not built: {', '.join(missing) or MODEL} (./dev deps && ./dev build)")
    home = Home()
    try:
        home.head = home.start_head("--num-cpus", "0")
        home.nodes = [home.start_node(home.head["address"], *flags) for _ in range(nodes)]
        yield home
        home.stop_all()
        home.check_nothing_left()
    finally:
        home.remove()


@contextlib.contextmanager
def service(nodes=2, replicas=2, flags=()):
    with cluster_of(nodes) as home:
        one = Service(home, "--replicas", str(replicas), *flags)
        home.wait_for(lambda: one.replicas_ready() == replicas, "every replica is ready", timeout=90)
        yield one
        one.stop()


@pytest.fixture(scope="session")
def served():
    with service() as one:
        yield one
