"""`rayo serve --detach`: the endpoint lives in the cluster. What a user loses if these fail: the service, when a terminal is closed or a
process dies; or the memory of engines that nobody ends.
"""
import contextlib
import fcntl
import http.client
import json
import os
import pty
import re
import signal
import subprocess
import termios
import urllib.request

import pytest

from conftest import BIN, MODEL, Home, Service, cluster_of

FLAGS = ("--threads", "1", "--max-context", "1024", "--parallel", "4", "--detach")


class Detached:
    """What Service is for a command that goes on."""
    model = "smollm2"
    client, get, ready, replicas_ready, status = Service.client, Service.get, Service.ready, Service.replicas_ready, Service.status

    def __init__(self, home, out):
        self.home = home
        self.url, self.port = re.search(r"answers at (http://\S+:(\d+))/v1", out).groups()

    def actors(self):
        """pid of each living actor of this endpoint, by name."""
        return {actor["name"]: actor["pid"] for actor in self.home.rayo("list", "actors", "--json", code=0).json()["actors"]
                if actor["namespace"] == "rayo-serve" and actor["state"] == "alive"}

    def engines(self):
        return {name: pid for name, pid in self.actors().items() if name.startswith("engine-")}

    def say(self, text="Hello", **more):
        return self.client.chat.completions.create(model=self.model, messages=[{"role": "user", "content": text}], **{"max_tokens": 5, **more})


@contextlib.contextmanager
def detached(nodes=2, replicas=2):
    with cluster_of(nodes) as home:
        out = home.rayo("serve", str(MODEL), "--name", "smollm2", "--port", "0", "--replicas", replicas, *FLAGS, code=0).out
        one = Detached(home, out)
        assert f"it goes on in the cluster: rayo serve stop --port {one.port} ends it" in out
        yield one
        one.home.rayo("serve", "stop", "--port", one.port, code=0)
        one.home.wait_for(lambda: not any("rayo-serve" in command.split()[0] for command in one.home.processes().values()),
                          "nothing of it is left", timeout=40)
        assert one.actors() == {}


@pytest.fixture(scope="module")
def one():
    with detached() as it:
        it.home.wait_for(lambda: it.replicas_ready() == 2, "both replicas are ready", timeout=60)
        yield it


def test_the_command_comes_back_when_the_model_answers(one):
    assert json.loads(urllib.request.urlopen(one.url + "/ready", timeout=10).read())["status"] == "ready"
    assert one.say().usage.completion_tokens
    names = one.actors()
    assert {f"endpoint-{one.port}", f"gateway-{one.port}", f"engine-{one.port}-smollm2-1", f"engine-{one.port}-smollm2-2"} == set(names)
    assert one.status()["detached"] and "in the cluster" in one.home.rayo("serve", "status", "--port", one.port, code=0).out


def test_it_outlives_the_commands_terminal():
    with cluster_of(1) as home:
        controller, terminal = pty.openpty()
        command = subprocess.Popen([str(BIN / "rayo"), "serve", str(MODEL), "--name", "smollm2", "--port", "0", "--replicas", "1", *FLAGS],
                                   env=home.env, stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True,
                                   preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(terminal)
        seen = b""
        with contextlib.suppress(OSError):  # its end
            while piece := os.read(controller, 4096):
                seen += piece
        assert command.wait(timeout=60) == 0, seen
        assert b"loading smollm2" in seen
        os.close(controller)
        there = Detached(home, seen.decode())
        assert there.say().usage.completion_tokens
        home.rayo("serve", "stop", "--port", there.port, code=0)


def test_after_the_death_of_its_process_it_goes_on_with_the_same_engines(one):
    before = one.actors()
    engines = one.engines()
    connection = http.client.HTTPConnection("127.0.0.1", int(one.port), timeout=30)
    connection.request("POST", "/v1/chat/completions", json.dumps({"model": one.model, "max_tokens": 900, "stream": True, "ignore_eos": True,
                                                                   "messages": [{"role": "user", "content": "Tell me everything."}]}),
                       {"Content-Type": "application/json"})
    answer = connection.getresponse()
    assert answer.read(10)
    os.kill(before[f"gateway-{one.port}"], signal.SIGKILL)
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):  # closed: neither an end nor a hang
        answer.read()
    one.home.wait_for(lambda: one.replicas_ready() == 2, "it answers at the same port with both replicas", timeout=20)
    assert one.say().usage.completion_tokens
    after = one.actors()
    assert one.engines() == engines, "the engines are those that were there"
    assert after[f"gateway-{one.port}"] != before[f"gateway-{one.port}"]
    one.home.wait_for(lambda: all(replica["running"] == 0 for replica in one.status()["replicas"]), "the request of the lost client is given up")


def test_after_the_death_of_its_mailbox_it_is_found_again(one):
    os.kill(one.actors()[f"endpoint-{one.port}"], signal.SIGKILL)
    one.home.wait_for(lambda: f"endpoint-{one.port}" in one.actors() and one.home.rayo("serve", "status", "--port", one.port).code == 0,
                      "it is there again")
    assert one.say().usage.completion_tokens and len(one.status()["replicas"]) == 2


def test_what_was_scaled_and_added_is_there_after_a_death(one, tmp_path):
    other = tmp_path / "other.gguf"
    other.symlink_to(MODEL.resolve())
    one.home.rayo("serve", "scale", "1", "--port", one.port, code=0)
    out = one.home.rayo("serve", str(other), "--port", one.port, "--replicas", "1", *FLAGS, code=0).out
    assert "other answers at" in out
    one.home.wait_for(lambda: len(one.engines()) == 2, "one engine of each model", timeout=40)
    engines = one.engines()
    os.kill(one.actors()[f"gateway-{one.port}"], signal.SIGKILL)
    one.home.wait_for(lambda: {name: len(replicas) for name, replicas in one.ready()["models"].items()} == {"other": 1, "smollm2": 1}
                      and one.ready()["status"] == "ready", "both models are there again", timeout=20)
    assert one.engines() == engines
    one.home.rayo("serve", "stop", "--name", "other", "--port", one.port, code=0)
    one.home.wait_for(lambda: len(one.engines()) == 1, "its engine has ended", timeout=40)
    one.home.rayo("serve", "scale", "2", "--port", one.port, code=0)
    one.home.wait_for(lambda: one.replicas_ready() == 2, "two again", timeout=60)


def test_a_killed_engine_of_it_is_started_again(one):
    name, pid = next(iter(one.engines().items()))
    os.kill(pid, signal.SIGKILL)
    one.home.wait_for(lambda: one.replicas_ready() == 2 and one.engines().get(name, pid) != pid, "another one under its name", timeout=60)
    assert one.say().usage.completion_tokens


def test_what_cannot_be_served_is_told_and_leaves_nothing(one, tmp_path):
    what, _ = one.home.rayo("serve", "/nowhere.gguf", "--detach", code=1).error
    assert "/nowhere.gguf" in what
    odd = tmp_path / "odd.gguf"
    odd.write_bytes(MODEL.read_bytes().replace(b"llama", b"lqama", 1))
    before = one.actors()
    what, _ = one.home.rayo("serve", str(odd), "--port", "0", "--detach", code=1).error
    assert "lqama" in what
    one.home.wait_for(lambda: one.actors() == before, "its endpoint has ended")


def test_without_a_cluster_there_is_nothing_to_live_in():
    home = Home()
    try:
        for words in (["status"], ["status", "--json"], ["stop"], ["scale", "2"]):
            what, next_step = home.rayo("serve", *words, code=3).error
            assert "no cluster is running here" in what and next_step.startswith("rayo start --head")
        what, next_step = home.rayo("serve", str(MODEL), "--detach", code=3).error
        assert "no cluster is running here" in what and next_step.startswith("rayo start --head")
    finally:
        home.remove()


def test_engines_whose_endpoint_is_gone_for_good_end_themselves():
    with cluster_of(1) as home:
        out = home.rayo("serve", str(MODEL), "--name", "smollm2", "--port", "0", "--replicas", "1", *FLAGS, code=0).out
        there = Detached(home, out)
        gateway = there.actors()[f"gateway-{there.port}"]
        engine = next(iter(there.engines().values()))
        os.kill(gateway, signal.SIGSTOP)  # it neither asks nor dies
        home.wait_for(lambda: engine not in home.processes(), "it has ended", timeout=90)

        def last_words():
            actors = home.rayo("list", "actors", "--json", code=0).json()["actors"]
            return [line for actor in actors if actor["death"] for line in actor["death"]["last_log_lines"]]
        home.wait_for(lambda: "no endpoint has asked for 60 s: the engine ends itself" in last_words(), "its death record says why")
        os.kill(gateway, signal.SIGCONT)
        home.wait_for(lambda: there.replicas_ready() == 1, "it starts another one", timeout=60)
        home.rayo("serve", "stop", "--port", there.port, code=0)
