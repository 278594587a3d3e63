"""Who may ask an endpoint that others can reach. What a user loses if these fail: strangers use it, or its own clients cannot.
"""
import http.client
import json

import pytest

from conftest import MODEL, Service, cluster_of

openai = pytest.importorskip("openai", reason="the openai package comes with ./dev deps")


@pytest.fixture(scope="module")
def keyed(tmp_path_factory):
    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text("# of the team\nsk-first\n\n  sk-second  \n")
    with cluster_of(1) as home:
        one = Service(home, "--replicas", "1", "--host", "0.0.0.0", "--api-key-file", keys)
        home.wait_for(lambda: one.replicas_ready() == 1, "it is ready", timeout=60)
        yield one
        one.stop()


def ask(one, method, path, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", one.port, timeout=10)
    connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer, body


def test_each_key_of_the_file_opens_and_no_other_does(keyed):
    for key in ("sk-first", "sk-second"):
        client = keyed.client.with_options(api_key=key)
        assert client.chat.completions.create(model=keyed.model, max_tokens=2, messages=[{"role": "user", "content": "Hi"}]).choices
    for key in ("sk-third", "# of the team", "sk-first,sk-second"):
        with pytest.raises(openai.AuthenticationError) as raised:
            keyed.client.with_options(api_key=key).models.list()
        assert raised.value.code == "invalid_api_key" and raised.value.request_id
    assert ask(keyed, "GET", "/v1/models", X_Api_Key="sk-second")[0].status == 200
    answer, body = ask(keyed, "GET", "/metrics")
    assert answer.status == 401 and json.loads(body)["error"]["type"] == "authentication_error"
    assert ask(keyed, "GET", "/health")[0].status == ask(keyed, "GET", "/ready")[0].status == 200


def test_web_pages_with_a_key_may_ask_under_any_name_of_the_machine(keyed):
    answer, _ = ask(keyed, "OPTIONS", "/v1/chat/completions", Host="models.example:8000", Origin="https://app.example",
                    Access_Control_Request_Method="POST", Access_Control_Request_Headers="authorization,content-type")
    assert answer.status == 204 and answer.headers["Access-Control-Allow-Origin"] == "*"
    assert "authorization" in answer.headers["Access-Control-Allow-Headers"] and "POST" in answer.headers["Access-Control-Allow-Methods"]
    answer, _ = ask(keyed, "GET", "/v1/models", Host="models.example:8000", Origin="https://app.example", Authorization="Bearer sk-first")
    assert answer.status == 200 and answer.headers["Access-Control-Allow-Origin"] == "*"
    assert "x-request-id" in answer.headers["Access-Control-Expose-Headers"]


@pytest.mark.parametrize("content, words", [(None, "cannot read"), ("# nothing\n\n", "has no key")])
def test_a_key_file_that_holds_no_key_is_refused(keyed, tmp_path, content, words):
    keys = tmp_path / "keys"
    if content is not None:
        keys.write_text(content)
    what, next_step = keyed.home.rayo("serve", str(MODEL), "--port", "0", "--host", "0.0.0.0", "--api-key-file", str(keys), code=1).error
    assert words in what and next_step
