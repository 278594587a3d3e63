"""Several models at one endpoint. What a user loses if these fail: the second model's place, or the first one's service.
"""
import json
import re
import signal
import threading

import pytest

from conftest import MODEL, Service, service

openai = pytest.importorskip("openai", reason="the openai package comes with ./dev deps")


def say(one, model, **more):
    return one.client.chat.completions.create(model=model, messages=[{"role": "user", "content": "Hello"}], **{"max_tokens": 5, **more})


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """Two commands at one port, each with its model: the same file under two names."""
    other = tmp_path_factory.mktemp("models") / "other.gguf"
    other.symlink_to(MODEL.resolve())
    with service(nodes=2, replicas=1) as first:
        second = Service(first.home, "--replicas", "1", model=other, name="other", port=first.port)
        yield first, second
        second.stop()


def test_a_second_serve_on_the_same_port_adds_its_model(two):
    first, second = two
    assert second.url == first.url
    assert "rayo serve stop --name other" in second.log.read_text()
    assert [model.id for model in first.client.models.list()] == ["other", "smollm2"]
    for name in ("smollm2", "other"):
        answer = say(first, name)
        assert answer.model == name and answer.usage.completion_tokens
        assert first.client.models.retrieve(name).id == name
    with pytest.raises(openai.NotFoundError) as raised:
        say(first, "third")
    assert raised.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError):
        first.client.post("/../tokenize", body={"prompt": "Hello"}, cast_to=object)  # which one's tokens?


def test_each_models_requests_go_to_its_own_engines(two):
    first, second = two

    def tokens(name):
        return sum(map(int, re.findall(rf'vllm:generation_tokens_total\{{model_name="{name}"[^}}]*\}} (\d+)', first.get("/metrics"))))
    before = tokens("smollm2"), tokens("other")  # up to half a second old
    say(first, "other", max_tokens=100, extra_body={"ignore_eos": True})
    first.home.wait_for(lambda: tokens("other") >= before[1] + 100, "its engine has counted")
    assert tokens("smollm2") < before[0] + 50
    families = re.findall(r"^# TYPE (\S+)", first.get("/metrics"), re.MULTILINE)
    assert len(families) == len(set(families)), "Prometheus refuses a second TYPE line of a name"


def test_status_and_scale_name_the_model(two):
    first, second = two
    serve = lambda *words, code: first.home.rayo("serve", *words, "--port", first.port, code=code)  # noqa: E731
    told = json.loads(serve("status", "--json", code=0).out)
    assert told["schema"] == 2 and [(model["name"], model["state"]) for model in told["models"]] == [("other", "ready"), ("smollm2", "ready")]
    text = serve("status", "--name", "other", code=0).out
    assert "other: ready" in text and "smollm2:" not in text
    assert serve("scale", "2", code=1).error == ("which model? served there: other, smollm2", "--name NAME")
    assert serve("scale", "2", "--name", "third", code=1).error[0] == "there is no model third; served there: other, smollm2"
    assert "third" in serve("status", "--name", "third", code=1).error[0]
    serve("scale", "2", "--name", "other", code=0)
    first.home.wait_for(lambda: second.replicas_ready() == 2, "two of the one", timeout=60)
    assert len(first.status()["replicas"]) == 1, "and one of the other"
    serve("scale", "1", "--name", "other", code=0)
    first.home.wait_for(lambda: len(second.status()["replicas"]) == 1, "one again", timeout=60)


@pytest.mark.parametrize("flags, words", [
    (("--name", "smollm2"), "a model named smollm2 is served there already"),
    (("--name", "third", "--host", "0.0.0.0", "--no-auth"), "has its address and keys already"),
])
def test_what_cannot_be_added_is_told(two, flags, words):
    first, _ = two
    refused = first.home.rayo("serve", str(MODEL), *flags, "--port", first.port, code=1)
    what, next_step = refused.error
    assert words in what and next_step
    assert refused.out == "", "it says that it answers"
    assert say(first, "smollm2").usage.completion_tokens


def test_a_model_that_does_not_load_hurts_no_other(two, tmp_path):
    first, _ = two
    odd = tmp_path / "odd.gguf"
    odd.write_bytes(MODEL.read_bytes().replace(b"llama", b"lqama", 1))
    what, _ = first.home.rayo("serve", str(odd), "--port", first.port, code=1).error
    assert "lqama" in what
    assert first.ready()["status"] == "ready" and set(first.ready()["models"]) == {"other", "smollm2"}
    assert say(first, "smollm2").usage.completion_tokens


def test_a_model_comes_and_goes_while_another_answers(two, tmp_path):
    first, _ = two
    third = tmp_path / "third.gguf"
    third.symlink_to(MODEL.resolve())
    states, done = set(), threading.Event()

    def watch():
        while not done.wait(0.05):
            states.add(first.ready()["status"])
    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        long = first.client.chat.completions.create(model="smollm2", max_tokens=60, stream=True, extra_body={"ignore_eos": True},
                                                    messages=[{"role": "user", "content": "Tell me a story."}])
        next(long)
        out = first.home.rayo("serve", str(third), "--port", first.port, "--threads", "1", "--max-context", "512", "--detach", "--replicas", "1",
                              code=0).out
        assert f"third answers at {first.url}/v1" in out
        assert say(first, "third").model == "third"
        first.home.rayo("serve", "stop", "--name", "third", "--port", first.port, code=0)
        with pytest.raises(openai.NotFoundError):
            say(first, "third")
        first.home.wait_for(lambda: len(json.loads(first.home.rayo("serve", "status", "--json", "--port", first.port, code=0).out)["models"]) == 2,
                            "nothing is left of it", timeout=40)
        assert sum(1 for _ in long) >= 55
    finally:
        done.set()
        watcher.join()
    assert states == {"ready"}


def test_ctrl_c_takes_off_the_model_of_its_command_alone(two, tmp_path):
    first, _ = two
    third = tmp_path / "third.gguf"
    third.symlink_to(MODEL.resolve())
    one = Service(first.home, "--replicas", "1", model=third, name="third", port=first.port)
    assert say(first, "third").model == "third"
    one.process.send_signal(signal.SIGINT)
    assert one.process.wait(timeout=40) == 0
    assert {model.id for model in first.client.models.list()} == {"other", "smollm2"}
    assert say(first, "smollm2").usage.completion_tokens and first.process.poll() is None
