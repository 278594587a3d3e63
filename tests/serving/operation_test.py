"""Starting, watching, scaling and stopping. What a user loses if these fail: control over what runs."""
import http.client
import json
import os
import re
import signal
import socket
import threading
import time

import pytest

from conftest import MODEL, ROOT, Service, cluster_of, service


def test_status_scale_and_stop_lose_no_request():
    openai = pytest.importorskip("openai")
    with service(replicas=1) as one:
        status = one.home.wait_for(lambda: (told := one.status())["ready"] and told, "its report says that it is ready")
        assert status["url"] == one.url and len(status["replicas"]) == 1
        assert status["replicas"][0]["cpu_variant"].startswith("x86-64-v")
        text = one.home.rayo("serve", "status", "--port", one.port, code=0).out
        assert re.search(r"^smollm2: ready, 0 requests", text, re.MULTILINE) and "tokens/s" in text
        one.home.rayo("serve", "scale", "2", "--port", one.port, code=0)
        one.home.wait_for(lambda: one.replicas_ready() == 2, "two replicas are ready", timeout=60)
        answers = []

        def ask():
            answers.append(one.client.chat.completions.create(model=one.model, max_tokens=100, temperature=0,
                                                              messages=[{"role": "user", "content": "Tell me a story."}]))
        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        one.home.wait_for(lambda: one.status()["requests"] == 4, "all requests run")
        one.home.rayo("serve", "scale", "1", "--port", one.port, code=0)
        one.home.wait_for(lambda: len(one.status()["replicas"]) == 1, "one replica is left", timeout=60)
        for thread in threads:
            thread.join()
        assert len(answers) == 4 and all(answer.choices[0].message.content for answer in answers)
        one.home.rayo("serve", "stop", "--port", one.port, code=0)
        assert one.process.wait(timeout=40) == 0


@pytest.mark.parametrize("arguments, code, words", [
    ([], 2, "which model?"),
    ([""], 2, "which model?"),
    (["/nowhere.gguf"], 1, "there is no file /nowhere.gguf"),
    (["/usr"], 1, "/usr is a folder"),
    ([str(MODEL), "--host", "192.0.2.1", "--no-auth", "--port", "0"], 1, "cannot listen on 192.0.2.1:0"),
    (["pip:no_such_package_here"], 1, "python3 has no package no_such_package_here"),
    ([str(MODEL), "--host", "0.0.0.0"], 2, "needs keys"),
    ([str(MODEL), "--tensor-parallel-size", "2"], 2, "later version"),
    ([str(MODEL), "--replicas", "none"], 2, "neither a number"),
    (["status", "--port", "1"], 1, "nothing serves at port 1"),
])
def test_wrong_use_is_told(served, arguments, code, words):
    result = served.home.rayo("serve", *arguments, code=code)
    what, next_step = result.error
    assert words in what and next_step


def test_a_broken_model_is_refused_before_anything_is_loaded(served, tmp_path):
    cut = tmp_path / "cut.gguf"
    with open(MODEL, "rb") as whole:
        cut.write_bytes(whole.read(20_000_000))
    what, _ = served.home.rayo("serve", str(cut), code=1).error
    assert "cut.gguf" in what
    text = tmp_path / "text.gguf"
    text.write_text("This is no model.")
    what, _ = served.home.rayo("serve", str(text), code=1).error
    assert "text.gguf" in what


def seconds_to_ready(home):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    begin = time.monotonic()
    command = home.popen("serve", MODEL, "--port", port, "--replicas", "1", "--max-context", "2048")

    def ready():
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", "/ready")
            return connection.getresponse().status == 200
        except ConnectionRefusedError:
            return False
        finally:
            connection.close()
    home.wait_for(ready, "it is ready")
    seconds = time.monotonic() - begin
    command.send_signal(signal.SIGINT)
    assert command.wait(timeout=40) == 0
    command.communicate()
    return seconds


def test_it_is_ready_within_2_s_of_the_command():
    MODEL.read_bytes()  # now it is in the page cache
    with cluster_of(1) as home:
        seconds = sorted(seconds_to_ready(home) for _ in range(3))
        print(f"ready after {seconds[1]:.2f} s (of {seconds})")
        assert seconds[1] <= 2


def test_status_says_why_it_computes_on_the_cpu(served):
    if any(node["devices"] for node in served.home.status()["nodes"]):
        pytest.skip("this machine has a GPU")
    devices = {replica["device"] for replica in served.status()["replicas"]}
    assert devices == {"CPU only: its node has no GPU"}
    assert "CPU only: its node has no GPU" in served.home.rayo("serve", "status", "--port", served.port, code=0).out


def test_it_ends_and_says_so_where_its_cluster_is_gone():
    with cluster_of(1) as home:
        one = Service(home, "--replicas", "1")
        home.wait_for(lambda: one.replicas_ready() == 1, "the replica is ready", timeout=60)
        raylet = min(pid for pid, command in home.processes().items() if "bin/rayo-raylet" in command.split()[0])  # the head's came first
        os.kill(raylet, signal.SIGKILL)
        assert one.process.wait(timeout=40) == 3
        assert re.search(r"rayo: the cluster of this endpoint is gone.*\ntry: ", one.log.read_text()), one.log.read_text()


def test_help_tells_of_it(served):
    assert "rayo serve MODEL" in served.home.rayo("help", code=0).out
    assert "--replicas" in served.home.rayo("help", "serve", code=0).out


def test_a_model_larger_than_every_nodes_memory_is_refused_with_figures():
    with cluster_of(1, "--memory", "64MiB") as home:
        what, next_step = home.rayo("serve", str(MODEL), "--port", "0", code=1).error
        assert re.search(r"needs [\d.]+ [MG]iB \(weights [\d.]+ MiB", what) and "64.0 MiB" in what, what
        assert "smaller" in next_step
        assert home.status()["actors"]["alive"] == 0, "something was started"


@pytest.mark.parametrize("flags", [(), ("--detach",)])
def test_a_taken_port_is_named(served, flags):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        what, _ = served.home.rayo("serve", str(MODEL), "--port", port, *flags, code=1).error
        assert f"cannot listen on 127.0.0.1:{port}" in what


def test_a_client_that_leaves_frees_the_engine(served):
    connection = http.client.HTTPConnection("127.0.0.1", served.port)
    body = json.dumps({"model": served.model, "max_tokens": 4000, "stream": True, "ignore_eos": True,
                       "messages": [{"role": "user", "content": "Tell me everything."}]})
    connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    assert answer.read(10)
    served.home.wait_for(lambda: served.status()["requests"] == 1, "it runs")
    connection.sock.shutdown(socket.SHUT_RDWR)
    served.home.wait_for(lambda: served.status()["requests"] == 0, "its place is free", timeout=5)


def test_ten_thousand_silent_connections_hurt_nobody(served):
    import resource
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    count = min(10_000, hard - 200)
    silent = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(count)]
    try:
        begin = time.monotonic()
        assert json.loads(served.get("/health"))["status"] == "ok"
        assert time.monotonic() - begin < 5
        rss = int(next(line for line in open(f"/proc/{served.process.pid}/status") if line.startswith("VmRSS")).split()[1])
        assert rss < 600_000, f"{rss} KiB"
    finally:
        for one in silent:
            one.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_bench_prints_vllms_table_of_any_openai_server(served):
    flags = ("--url", served.url, "--num-prompts", "6", "--input-len", "10", "--output-len", "5")
    text = served.home.rayo("serve", "bench", *flags, "--max-concurrency", "2", code=0).out
    lines = dict(re.findall(r"^(.+?): +([\d.]+)$", text, re.MULTILINE))
    assert lines["Successful requests"] == "6" and lines["Failed requests"] == "0" and lines["Total generated tokens"] == "30"
    assert float(lines["Peak concurrent requests"]) == 2
    assert 0 < float(lines["Median TTFT (ms)"]) < float(lines["Median E2EL (ms)"])
    flags = ("--url", f"http://localhost:{served.port}/v1/", *flags[2:])
    document = served.home.rayo("serve", "bench", *flags, "--request-rate", "20", "--json", code=0).json()  # open loop
    assert document["completed"] == 6 and document["total_output_tokens"] == 30 and document["request_rate"] == 20
    assert document["median_ttft_ms"] > 0 and document["p99_itl_ms"] > 0
    assert "try:" in served.home.rayo("serve", "bench", "--url", "http://127.0.0.1:1", code=3).err


def test_the_dashboard_asks_for_metrics_that_exist(served):
    served.client.chat.completions.create(model=served.model, max_tokens=3, messages=[{"role": "user", "content": "Hello"}])
    assert served.client.with_options(timeout=5).models.list()
    told = set(re.findall(r"^([a-z_]+:[a-z_]+)", served.get("/metrics"), re.MULTILINE))
    dashboard = json.loads((ROOT / "docs" / "grafana_serving.json").read_text())
    asked = {name for panel in dashboard["panels"] for target in panel["targets"] for name in re.findall(r"(?:vllm|rayo):[a-z_]+", target["expr"])}
    lazily = {"rayo:requests_refused_total"}  # one line for each status that was seen
    assert len(asked) > 10 and asked - lazily <= told, asked - told
