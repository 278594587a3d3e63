"""What is wrong is refused in OpenAI's shape, at once, and hurts nobody else. What a user loses if these fail: a wrong request hangs, is
answered with nonsense, or ends the service for all.
"""
import http.client
import json
import socket
import struct
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from conftest import BIN, MODEL

HELLO = [{"role": "user", "content": "Say hello."}]


def ask(served, body, path="/v1/chat/completions"):
    """(status, the error) of a body as it is."""
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=30)
    connection.request("POST", path, body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    document = json.loads(answer.read())
    connection.close()
    return answer.status, document.get("error")


def chat(**more):
    return json.dumps({"model": "smollm2", "messages": HELLO, "max_tokens": 4, **more}).encode()


def part(**content):
    return chat(messages=[{"role": "user", "content": [content]}])


EXPLODES = "root ::= " + "(" * 12 + "[a-z]{1,4000}" + "){1,4000}" * 12

EXPLODING_SCHEMA = {"type": "string", "pattern": "^" + "(" * 12 + "[a-z]{1,4000}" + "){1,4000}" * 12 + "$"}

BAD = {
    "nothing": (b"", 400, None),
    "no JSON": (b"Hello?", 400, None),
    "half a JSON": (chat()[:-9], 400, None),
    "a list": (b"[1, 2]", 400, None),
    "deeply nested": (b"[" * 100_000, 400, None),
    "invalid UTF-8": (chat().replace(b"hello", b"\xff\xfe"), 400, None),
    "a text for a number": (chat(max_tokens="many"), 400, "max_tokens"),
    "a negative number": (chat(max_tokens=-1), 400, "max_tokens"),
    "a huge number": (chat(max_tokens=10**30), 400, "max_tokens"),
    "a huge seed": (chat(seed=1e300), 400, "seed"),
    "no number": (chat().replace(b'"max_tokens": 4', b'"temperature": NaN'), 400, None),
    "too hot": (chat(temperature=1e9), 400, "temperature"),
    "no messages": (json.dumps({"model": "smollm2"}).encode(), 400, "messages"),
    "empty messages": (chat(messages=[]), 400, "messages"),
    "messages of a wrong type": (chat(messages="Hello"), 400, "messages"),
    "an image": (part(type="image_url", image_url={"url": "data:image/png;base64,AAAA"}), 400, "messages"),
    "sound": (part(type="input_audio", input_audio={"data": "AAAA", "format": "wav"}), 400, "messages"),
    "a schema that is none": (chat(response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "nonsense"}}}), 400,
                              "response_format"),
    "a schema that refers to nothing": (chat(response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": {"$ref": "#/a"}}}),
                                        400, "response_format"),
    "a schema that explodes": (chat(response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": EXPLODING_SCHEMA}}), 400,
                               "response_format"),
    "a tool whose schema explodes": (chat(tools=[{"type": "function", "function": {"name": "f", "parameters": {
        "type": "object", "properties": {"a": EXPLODING_SCHEMA}, "required": ["a"]}}}], tool_choice="required"), 400, "tools"),
    "half a character": (chat().replace(b"hello", b"\\ud83d"), 400, None),
    "a negative penalty beyond the limit": (chat(frequency_penalty=-1e308), 400, "frequency_penalty"),
    "a number that is a list": (chat(temperature=[1]), 400, "temperature"),
    "a message that is a number": (chat(messages=[7]), 400, "messages"),
    "no answers": (chat(n=0), 400, "n"),
    "a stop of a wrong type": (chat(stop=7), 400, "stop"),
    "tools of a wrong type": (chat(tools="weather"), 400, "tools"),
    "a grammar that breaks off": (chat(grammar="root ::= ("), 400, "grammar"),
    "a grammar that explodes": (chat(grammar=EXPLODES), 400, "grammar"),
    "another model": (chat(model="gpt-9"), 404, "model"),
    "a bias for no token": (chat(logit_bias={"99999999": 1}), 400, None),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_body_is_refused_at_once(served, name):
    body, status, parameter = BAD[name]
    begin = time.monotonic()
    told, error = ask(served, body)
    assert told == status, error
    assert time.monotonic() - begin < 5
    assert set(error) >= {"message", "type", "param", "code"} and error["message"] and error["type"] == "invalid_request_error"
    if parameter:
        assert (error["param"] or "").startswith(parameter), error
    assert ask(served, chat()) == (200, None), "the service answers others as before"


def test_grammars_that_explode_keep_nobody_else_waiting(served):
    with ThreadPoolExecutor(6) as pool:
        asked = [pool.submit(ask, served, chat(grammar=f"{EXPLODES} # {i}")) for i in range(6)]
        served.home.wait_for(lambda: any(one.done() for one in asked), "the first is refused, after a second")
        assert ask(served, chat()) == (200, None)
        assert sum(not one.done() for one in asked) >= 3, "it waited behind them"
        assert {one.result()[0] for one in asked} == {400}


@pytest.mark.parametrize("path, fields", [
    ("/v1/completions", {"prompt": 5}),
    ("/v1/completions", {"prompt": [[1, -2]]}),
    ("/v1/completions", {"prompt": [10**30]}),
    ("/v1/completions", {"prompt": "word " * 5000}),
    ("/v1/completions", {"prompt": "a", "max_tokens": -1}),
    ("/v1/embeddings", {"input": {"text": "a"}}),
    ("/v1/embeddings", {"input": []}),
    ("/v1/embeddings", {"input": "a", "encoding_format": "octal"}),
    ("/tokenize", {"prompt": 5}),
    ("/detokenize", {"tokens": ["a"]}),
    ("/detokenize", {"tokens": [99999999]}),
])
def test_a_bad_body_is_refused_on_every_path(served, path, fields):
    for body in (json.dumps({"model": "smollm2", **fields}).encode(), b"Hello?", b"\xff\xfe", b"[]"):
        status, error = ask(served, body, path)
        assert status == 400 and error["message"] and error["type"] == "invalid_request_error", (body[:60], error)
    status, error = ask(served, json.dumps({"model": "gpt-9", "prompt": "a", "input": "a", "tokens": [1]}).encode(), path)
    assert status == 404 and error["code"] == "model_not_found"


def test_unknown_fields_are_ignored(served):
    assert ask(served, chat(frobnicate=True, user="me", metadata={"a": "b"}, store=False)) == (200, None)


def test_a_prompt_that_does_not_fit_is_told_with_both_numbers(served):
    status, error = ask(served, chat(messages=[{"role": "user", "content": "word " * 5000}]))
    assert status == 400 and error["code"] == "context_length_exceeded"
    assert "2048" in error["message"] and any(int(word.rstrip(".,")) > 5000 for word in error["message"].split() if word.rstrip(".,").isdigit()), error


def test_a_book_as_a_prompt_is_refused_at_once_and_keeps_nobody_waiting(served):
    for book in ("word " * 3_000_000, "a" * 15_000_000):
        with ThreadPoolExecutor(3) as pool:
            begin = time.monotonic()
            asked = [pool.submit(ask, served, chat(messages=[{"role": "user", "content": book}])) for _ in range(3)]
            assert ask(served, chat()) == (200, None)
            for one in asked:
                status, error = one.result()
                assert status == 400 and error["code"] == "context_length_exceeded", error
                assert "2048 tokens" in error["message"] and "at least" in error["message"], error
            assert time.monotonic() - begin < 15, "to read one of them whole takes 20 s"


def vanish(served, text):
    """Sends a beginning and is gone, without a goodbye."""
    client = socket.create_connection(("127.0.0.1", served.port))
    client.sendall(text)
    return client


def reset(client):
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def test_clients_that_vanish_at_each_stage_leave_nothing_behind(served):
    long = chat(messages=[{"role": "user", "content": "word " * 1500}], max_tokens=400, ignore_eos=True, stream=True)
    story = chat(max_tokens=1500, ignore_eos=True, stream=True)

    def request(body):
        return b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    for text in (b"", b"POST /v1/ch", request(story)[:60], request(story)[:-20]):  # in the header, in the body
        reset(vanish(served, text))
    items = {"type": "array", "items": {"enum": [f"item {i}" for i in range(2000)]}}
    reading_its_grammar = chat(max_tokens=1500, response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": items}})
    for text in (request(chat()), request(reading_its_grammar), request(chat()) * 3):  # at work on a thread; with others behind it
        reset(vanish(served, text))
    waiting = [vanish(served, request(story)) for _ in range(12)]  # more than run at a time: the last ones are in the queue
    prefilling = vanish(served, request(long))
    served.home.wait_for(lambda: served.status()["requests"] == 13, "all were taken")
    assert waiting[0].recv(100)  # this one is being written
    for client in [*waiting, prefilling]:
        reset(client)
    served.home.wait_for(lambda: served.status()["requests"] == 0, "every place is free")
    served.home.wait_for(lambda: all(replica["running"] == replica["waiting"] == 0 for replica in served.status()["replicas"]),
                         "the engines work for nobody")
    assert ask(served, chat()) == (200, None)


def test_an_unknown_architecture_is_named(served, tmp_path):
    odd = tmp_path / "odd.gguf"
    odd.write_bytes(MODEL.read_bytes().replace(b"llama", b"lqama", 1))
    what, _ = served.home.rayo("serve", str(odd), "--port", "0", code=1).error
    assert "lqama" in what


def test_a_missing_part_is_named(served, tmp_path):
    for number in (1, 3):
        (tmp_path / f"m-0000{number}-of-00003.gguf").symlink_to(MODEL.resolve())
    what, _ = served.home.rayo("serve", str(tmp_path / "m-00001-of-00003.gguf"), "--port", "0", code=1).error
    assert "m-00002-of-00003.gguf" in what


@pytest.mark.parametrize("where, why", [(">/dev/full", "No space left on device"), (">&-", "Bad file descriptor")])
def test_output_that_is_lost_is_an_error_of_every_verb(served, where, why):
    status = ["status", "--port", str(served.port)]
    for words in (["--help"], status, [*status, "--json"], ["bench", "--help"]):
        for program in (["rayo", "serve"], ["rayo-serve"]):
            line = f'{BIN}/{" ".join([*program, *words])} {where}'
            ran = subprocess.run(["bash", "-c", line], env=served.home.env, capture_output=True, text=True, timeout=60)
            assert (ran.returncode, ran.stderr) == (1, f"rayo: cannot print: {why}\ntry: send the output elsewhere; what was done stays done\n"), line
